/* suite_coordinator_model.h: a model of a fleet's slots, run on each adapter that serves several
 * workers. */
#ifndef PP_SUITE_COORDINATOR_MODEL_H
#define PP_SUITE_COORDINATOR_MODEL_H

#include "photopool/port/coordinator.h"
#include "runtime/loop.h"

struct pp_coord_model_subject {
    const char *name;
    /* Starts a server without data. now_ms(data) is its clock, and that of all coordinators. No
     * request to a photo host takes longer than longest_ms. */
    void (*start)(int64_t (*now_ms)(void *data), void *data, int64_t longest_ms);
    /* Opens the coordinator of one more process on the server. */
    enum pp_err (*open)(struct pp_loop *loop, struct pp_coordinator **out);
    void (*forget_scripts)(void); /* the server forgets what it can read again */
    void (*wipe)(void);           /* the server loses its data */
    void (*restart)(void);        /* the server starts again with its data; connections are lost */
    void (*stop)(void);           /* ends the server, after all coordinators were closed */
};

/* Runs the model; returns the number of failed tests. */
int pp_suite_coordinator_model(const struct pp_coord_model_subject *subject);

#endif
