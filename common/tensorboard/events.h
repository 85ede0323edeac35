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
// A CRC that can itself stand in bytes of which a CRC is taken: rotated right by 15 bits, plus a
// constant (TensorFlow's core/lib/hash/crc32c.h).
uint32_t MaskedCrc32c(absl::string_view bytes);

// A payload as a record.
std::string FrameRecord(absl::string_view payload);

// Reads records up to the first that is not whole: cut short, or with a wrong CRC. Threads: one.
class RecordReader {
 public:
  // Records longer than this are taken for damaged.
  static constexpr uint64_t kPayloadBytesMax = uint64_t{64} << 20;

  // `in` is read from its beginning and outlives the reader.
  explicit RecordReader(std::istream* in) : in_(in) {}

  // False: there is no further whole record, and `payload` says nothing.
  bool Next(std::string* payload);
  // Returns where the last whole record ends.
  int64_t whole_bytes() const { return whole_bytes_; }

 private:
  bool ReadChecked(size_t bytes, std::string* text);

  std::istream* in_;
  int64_t whole_bytes_ = 0;
};

// Events of a job for TensorBoard. Pure. `wall_time_s`: seconds since 1970.

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
