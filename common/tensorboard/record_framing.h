#ifndef STRATA_COMMON_TENSORBOARD_RECORD_FRAMING_H_
#define STRATA_COMMON_TENSORBOARD_RECORD_FRAMING_H_

#include <cstddef>
#include <cstdint>
#include <istream>
#include <string>

#include "absl/strings/string_view.h"

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
  // Where the whole records that were read end.
  int64_t whole_bytes() const { return whole_bytes_; }

 private:
  bool ReadChecked(size_t bytes, std::string* text);

  std::istream* in_;
  int64_t whole_bytes_ = 0;
};

}  // namespace strata::tensorboard

#endif  // STRATA_COMMON_TENSORBOARD_RECORD_FRAMING_H_
