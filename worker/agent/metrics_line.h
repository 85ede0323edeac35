#ifndef STRATA_WORKER_AGENT_METRICS_LINE_H_
#define STRATA_WORKER_AGENT_METRICS_LINE_H_

#include <string>

#include "proto/control.pb.h"

namespace strata::worker {

// Whether a record says what was measured of the model.
bool HasMeasured(const proto::MetricsRecord& record);
// Whether a record says only how weights of an earlier step were measured once training was over.
bool IsLateMeasurement(const proto::MetricsRecord& record);

// One line of metrics.jsonl, without the newline: the record's fields under their names in
// proto/control.proto, in that order, but for `values` after the test's. hidden_share,
// test_accuracy, test_loss and values are there only where measured, `final` only on the final
// model's line; a number that is not finite becomes null.
// A late measurement has `step`, what was measured and `elapsed_s` alone.
std::string MetricsLine(const proto::MetricsRecord& record);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_METRICS_LINE_H_
