/* plot.c: draws figures over the number of workers, as SVG. The axis of workers is logarithmic. To
 * add a plot: a row in `plots`. */
#include <math.h>
#include <stdio.h>

#include "scale.h"

enum { WIDTH = 640, HEIGHT = 360, LEFT = 70, RIGHT = 150, TOP = 40, BOTTOM = 45, LINES_MAX = 6 };

struct line {
    const char *name;
    double (*value)(const struct scale_result *r);
};

struct plot {
    const char *file, *title;
    struct line lines[LINES_MAX];
};

static double per_photo(const struct scale_result *r, double n)
{
    return r->photos > 0 ? n / (double)r->photos : 0;
}

static double store(const struct scale_result *r)
{
    return scale_trips(r, SCALE_STORE);
}

static double coordinator(const struct scale_result *r)
{
    return scale_trips(r, SCALE_COORDINATOR);
}

static double others(const struct scale_result *r)
{
    return scale_trips(r, SCALE_INGEST) + scale_trips(r, SCALE_EVENTS) + scale_trips(r, SCALE_DELIVERY);
}

static double bytes_store(const struct scale_result *r)
{
    return scale_bytes(r, SCALE_STORE);
}

static double bytes_coordinator(const struct scale_result *r)
{
    return scale_bytes(r, SCALE_COORDINATOR);
}

static double bytes_others(const struct scale_result *r)
{
    return scale_bytes(r, SCALE_INGEST) + scale_bytes(r, SCALE_EVENTS) + scale_bytes(r, SCALE_DELIVERY);
}

static double messages(const struct scale_result *r)
{
    return per_photo(r, (double)r->messages);
}

static double steps(const struct scale_result *r)
{
    return per_photo(r, (double)r->steps);
}

static double share(const struct scale_result *r)
{
    return 100 * r->rate_share;
}

static double share_worst(const struct scale_result *r)
{
    return 100 * r->rate_worst;
}

static double share_giant(const struct scale_result *r)
{
    return 100 * r->giant_share;
}

static double delay_p50(const struct scale_result *r)
{
    return (double)r->delay_ms[0];
}

static double delay_p99(const struct scale_result *r)
{
    return (double)r->delay_ms[1];
}

static double own_p50(const struct scale_result *r)
{
    return (double)r->own_ms[0];
}

static double own_p99(const struct scale_result *r)
{
    return (double)r->own_ms[1];
}

static double mongo_busy(const struct scale_result *r)
{
    return 100 * r->busy[SCALE_MONGO];
}

static double mongo_busiest(const struct scale_result *r)
{
    return 100 * r->busiest[SCALE_MONGO];
}

static double redis_busy(const struct scale_result *r)
{
    return 100 * r->busy[SCALE_REDIS];
}

static double redis_busiest(const struct scale_result *r)
{
    return 100 * r->busiest[SCALE_REDIS];
}

static double cpu_ms(const struct scale_result *r)
{
    return per_photo(r, 1000 * r->cpu_s);
}

static const struct plot plots[] = {
    {"trips", "round trips a photo", {{"store", store}, {"coordinator", coordinator}, {"others", others}}},
    {"bytes",
     "bytes a photo to servers and back",
     {{"store", bytes_store},
      {"coordinator", bytes_coordinator},
      {"others", bytes_others},
      {"messages", scale_bytes_messages}}},
    {"messages",
     "messages to processes, and steps of the simulator, a photo",
     {{"messages", messages}, {"steps", steps}}},
    {"rate",
     "share of the permitted rate that is reached, in percent",
     {{"mean", share}, {"worst", share_worst}, {"the giant", share_giant}}},
    {"delay",
     "small clients: ms from post to result",
     {{"p50", delay_p50}, {"p99", delay_p99}, {"p50, no hosts", own_p50}, {"p99, no hosts", own_p99}}},
    {"shards",
     "load of a shard, in percent",
     {{"MongoDB, mean", mongo_busy},
      {"MongoDB, most", mongo_busiest},
      {"Redis, mean", redis_busy},
      {"Redis, most", redis_busiest}}},
    {"cost", "processor time of the simulation, ms a photo", {{"ms", cpu_ms}}},
};

static double x_of(const struct scale_result *r, size_t n, size_t i)
{
    double lo = log((double)r[0].o.workers), hi = log((double)r[n - 1].o.workers);
    double share_x = hi > lo ? (log((double)r[i].o.workers) - lo) / (hi - lo) : 0.5;

    return LEFT + share_x * (WIDTH - LEFT - RIGHT);
}

static double y_of(double value, double most)
{
    return HEIGHT - BOTTOM - value / most * (HEIGHT - TOP - BOTTOM);
}

static double most_of(const struct plot *p, const struct scale_result *r, size_t n)
{
    double most = 0;

    for (size_t k = 0; k < LINES_MAX && p->lines[k].value; k++)
        for (size_t i = 0; i < n; i++)
            most = fmax(most, p->lines[k].value(&r[i]));
    return most > 0 ? most * 1.05 : 1;
}

static void draw_axes(const struct scale_result *r, size_t n, double most, FILE *out)
{
    for (int i = 0; i <= 4; i++) {
        double y = y_of(most * i / 4, most);
        fprintf(out, "<line x1='%d' x2='%d' y1='%.1f' y2='%.1f' stroke='#ddd'/>\n", LEFT, WIDTH - RIGHT, y,
                y);
        fprintf(out, "<text x='%d' y='%.1f' text-anchor='end'>%.4g</text>\n", LEFT - 6, y + 4, most * i / 4);
    }
    for (size_t i = 0; i < n; i++)
        fprintf(out, "<text x='%.1f' y='%d' text-anchor='middle'>%u</text>\n", x_of(r, n, i),
                HEIGHT - BOTTOM + 18, r[i].o.workers);
    fprintf(out, "<text x='%d' y='%d' text-anchor='middle'>workers</text>\n", (LEFT + WIDTH - RIGHT) / 2,
            HEIGHT - 8);
}

static void draw(const struct plot *p, const struct scale_result *r, size_t n, FILE *out)
{
    static const char *const colours[LINES_MAX] = {"#1f77b4", "#d62728", "#2ca02c",
                                                   "#9467bd", "#ff7f0e", "#8c564b"};
    double most = most_of(p, r, n);

    fprintf(out,
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' font-family='sans-serif' "
            "font-size='11'>\n<rect width='100%%' height='100%%' fill='white'/>\n"
            "<text x='%d' y='20' font-size='14'>%s</text>\n",
            WIDTH, HEIGHT, LEFT, p->title);
    draw_axes(r, n, most, out);
    for (size_t k = 0; k < LINES_MAX && p->lines[k].value; k++) {
        fprintf(out, "<polyline fill='none' stroke-width='2' stroke='%s' points='", colours[k]);
        for (size_t i = 0; i < n; i++)
            fprintf(out, "%.1f,%.1f ", x_of(r, n, i), y_of(p->lines[k].value(&r[i]), most));
        fprintf(out, "'/>\n");
        for (size_t i = 0; i < n; i++)
            fprintf(out, "<circle r='3' fill='%s' cx='%.1f' cy='%.1f'/>\n", colours[k], x_of(r, n, i),
                    y_of(p->lines[k].value(&r[i]), most));
        fprintf(out, "<text x='%d' y='%zu' fill='%s'>%s</text>\n", WIDTH - RIGHT + 12, TOP + 12 + 16 * k,
                colours[k], p->lines[k].name);
    }
    fprintf(out, "</svg>\n");
}

static bool write_plot(const char *folder, const char *file, const struct plot *p,
                       const struct scale_result *r, size_t n)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/%s.svg", folder, file);
    FILE *out = fopen(path, "w");
    if (out && p)
        draw(p, r, n, out);
    else if (out)
        scale_plot_shards(&r[n - 1], out);
    return out && fclose(out) == 0;
}

bool scale_plots(const struct scale_result *r, size_t n, const char *folder)
{
    bool ok = true;

    for (size_t i = 0; i < sizeof plots / sizeof plots[0] && ok; i++)
        ok = write_plot(folder, plots[i].file, &plots[i], r, n);
    return ok && write_plot(folder, "each_shard", NULL, r, n);
}
