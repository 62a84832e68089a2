/* plot_shards.c: draws the load of each shard of one run as bars, the busiest first. */
#include <math.h>
#include <stdio.h>

#include "scale.h"

enum { WIDTH = 640, LEFT = 70, RIGHT = 20, TOP = 40, HEIGHT = 150, GAP = 45 };

static const char *const names[SCALE_SERVERS] = {"MongoDB", "Redis"};
static const char *const colours[SCALE_SERVERS] = {"#1f77b4", "#d62728"};

static void draw_server(const struct scale_result *r, int server, int top, FILE *out)
{
    double most = fmax(100 * r->shards[server][0], 0.01) * 1.05;
    double wide = (double)(WIDTH - LEFT - RIGHT) / r->o.shards[server];

    for (int i = 0; i <= 2; i++) {
        double y = top + HEIGHT - HEIGHT * i / 2.0;
        fprintf(out, "<line x1='%d' x2='%d' y1='%.1f' y2='%.1f' stroke='#ddd'/>\n", LEFT, WIDTH - RIGHT, y,
                y);
        fprintf(out, "<text x='%d' y='%.1f' text-anchor='end'>%.3g</text>\n", LEFT - 6, y + 4, most * i / 2);
    }
    for (unsigned k = 0; k < r->o.shards[server]; k++) {
        double high = 100 * r->shards[server][k] / most * HEIGHT;
        fprintf(out, "<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' fill='%s'/>\n", LEFT + k * wide,
                top + HEIGHT - high, fmax(wide * 0.85, 0.5), high, colours[server]);
    }
    fprintf(out, "<text x='%d' y='%d' text-anchor='middle'>%u shards of %s, the busiest first</text>\n",
            (LEFT + WIDTH - RIGHT) / 2, top + HEIGHT + 18, r->o.shards[server], names[server]);
}

void scale_plot_shards(const struct scale_result *r, FILE *out)
{
    fprintf(out,
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' font-family='sans-serif' "
            "font-size='11'>\n<rect width='100%%' height='100%%' fill='white'/>\n"
            "<text x='%d' y='20' font-size='14'>load of each shard with %u workers, in percent</text>\n",
            WIDTH, TOP + SCALE_SERVERS * (HEIGHT + GAP), LEFT, r->o.workers);
    for (int i = 0; i < SCALE_SERVERS; i++)
        draw_server(r, i, TOP + i * (HEIGHT + GAP), out);
    fprintf(out, "</svg>\n");
}
