/* lane_request.c: requests of ports as jobs of a lane. */
#include "base/check.h"
#include "runtime/lane.h"

/* The state of a request on its way through the lane; it is kept in req.scratch. */
struct call {
    struct pp_job job;
    enum pp_err (*run)(void *state, struct pp_req *req);
};
_Static_assert(sizeof(struct call) <= sizeof(((struct pp_req *)0)->scratch), "a call fits into scratch");

static struct pp_req *req_of(struct pp_job *job)
{
    return (struct pp_req *)((char *)job - offsetof(struct pp_req, scratch));
}

static void run_request(void *state, struct pp_job *job)
{
    struct pp_req *req = req_of(job);
    req->err = ((struct call *)job)->run(state, req);
}

static void on_request_done(struct pp_job *job)
{
    struct pp_req *req = req_of(job);
    req->done(req);
}

enum pp_err pp_lane_request(struct pp_lane_home *home, struct pp_req *req,
                            enum pp_err (*run)(void *state, struct pp_req *req))
{
    pp_assert(run && req->done, "a request without run() or done()");
    struct call *c = (struct call *)req->scratch;
    *c = (struct call){.job = {.work = run_request, .done = on_request_done}, .run = run};
    return pp_lane_submit(home, &c->job);
}
