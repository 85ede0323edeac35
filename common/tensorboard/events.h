#ifndef STRATA_COMMON_TENSORBOARD_EVENTS_H_
#define STRATA_COMMON_TENSORBOARD_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <istream>
#include <string>

#include "absl/strings/string_view.h"
#include "common/tensorboard/event.pb.h"
#include "proto/control.pb.h"

namespace strata::tensorboard {

// TFRecord, the framing of event files (TensorFlow's core/lib/io/record_writer.h), little-endian:
//   uint64 length | uint32 masked CRC of the length | payload | uint32 masked CRC of the payload

// CRC-32C (Castagnoli, as in RFC 3720) of these bytes.
uint32_t Crc32c(absl::string_view bytes);
// A CRC that may itself be part of data for another CRC: rotated right by 15 bits, plus a constant
// (TensorFlow's core/lib/hash/crc32c.h).
uint32_t MaskedCrc32c(absl::string_view bytes);

// Returns a payload as a record.
std::string FrameRecord(absl::string_view payload);

// Reads records up to the first that is truncated or has a wrong CRC. Threads: one.
class RecordReader {
 public:
  // Longer records count as damaged.
  static constexpr uint64_t kPayloadBytesMax = uint64_t{64} << 20;

  // `in` is read from its beginning and outlives the reader.
  explicit RecordReader(std::istream* in) : in_(in) {}

  // Returns false if there is no further complete record; `payload` is unspecified then.
  bool Next(std::string* payload);
  // Returns the end of the last complete record.
  int64_t whole_bytes() const { return whole_bytes_; }

 private:
  bool ReadChecked(size_t bytes, std::string* text);

  std::istream* in_;
  int64_t whole_bytes_ = 0;
};

// Events of a job for TensorBoard. Pure. `wall_time_s`: seconds since 1970.

// The first event of every file.
proto::Event FileVersionEvent(double wall_time_s);
// Voids the file's events of steps after `step`.
proto::Event GoOnEvent(uint64_t step, double wall_time_s);
// The job as a text, under the tag `job`.
proto::Event JobTextEvent(absl::string_view text, double wall_time_s);

// A record's numbers as scalars of its step, all in one event: train/..., network/..., test/... and
// program/NAME, each rounded to float32; non-finite ones are NaN, as metrics.jsonl does not say
// which they are. Missing numbers are omitted; for a record of the final model only, or a late
// measurement, so are those of a window of steps.
proto::Event MetricsEvent(const strata::proto::MetricsRecord& record, double wall_time_s);

// The event as a record of a file.
std::string FrameEvent(const proto::Event& event);

}  // namespace strata::tensorboard

#endif  // STRATA_COMMON_TENSORBOARD_EVENTS_H_
