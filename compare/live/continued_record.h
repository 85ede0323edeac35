#ifndef STRATA_COMPARE_LIVE_CONTINUED_RECORD_H_
#define STRATA_COMPARE_LIVE_CONTINUED_RECORD_H_

#include "compare/run_record.pb.h"

namespace strata::compare {

// The record of a run that went on from `earlier` at its `resumed_step`, as of one whole run: what
// `earlier` has up to that step, then `record`, whose times begin when `earlier` was there. Samples
// and updates of `record` count from the start already, as ReportLog's do. A window that the step
// cuts is left out; bytes, staleness and waiting of the steps before it are taken to be even. Pure.
proto::RunRecord Continued(const proto::RunRecord& earlier, proto::RunRecord record);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_LIVE_CONTINUED_RECORD_H_
