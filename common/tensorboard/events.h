#ifndef STRATA_COMMON_TENSORBOARD_EVENTS_H_
#define STRATA_COMMON_TENSORBOARD_EVENTS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "common/tensorboard/event.pb.h"
#include "proto/control.pb.h"

namespace strata::tensorboard {

// What TensorBoard is told of a job. Pure. `wall_time_s`: seconds since 1970.

// The first event of every file.
proto::Event FileVersionEvent(double wall_time_s);
// Voids what the file has of steps after `step`.
proto::Event GoOnEvent(uint64_t step, double wall_time_s);
// The job as a text, under the tag `job`.
proto::Event JobTextEvent(absl::string_view text, double wall_time_s);

// A record's numbers as scalars of its step, all in one event: train/..., network/..., test/... and
// program/NAME, each rounded to float32; one that is not finite is NaN, as metrics.jsonl does not
// say which it is. Those that the record does not have are left out, and where it is about the
// final model alone, or a late measurement, those of a window of steps.
proto::Event MetricsEvent(const strata::proto::MetricsRecord& record, double wall_time_s);

// The event as a record of a file.
std::string FrameEvent(const proto::Event& event);

}  // namespace strata::tensorboard

#endif  // STRATA_COMMON_TENSORBOARD_EVENTS_H_
