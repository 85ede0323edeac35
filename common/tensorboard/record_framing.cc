#include "common/tensorboard/record_framing.h"

#include <algorithm>
#include <boost/crc.hpp>

#include "absl/strings/str_cat.h"

namespace strata::tensorboard {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr size_t kCrcBytes = 4;
constexpr size_t kPieceBytes = size_t{1} << 20;

std::string LittleEndian(uint64_t value, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i)));
  return text;
}

uint64_t FromLittleEndian(absl::string_view text) {
  uint64_t value = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    value |= uint64_t{static_cast<unsigned char>(text[i])} << (8 * i);
  }
  return value;
}

// Reads a piece at a time: a length that is wrong takes no more memory than the file has bytes.
bool Read(std::istream* in, size_t bytes, std::string* text) {
  text->clear();
  while (text->size() < bytes) {
    const size_t before = text->size(), piece = std::min(kPieceBytes, bytes - before);
    text->resize(before + piece);
    if (!in->read(text->data() + before, static_cast<std::streamsize>(piece))) return false;
  }
  return true;
}

}  // namespace

uint32_t Crc32c(absl::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

uint32_t MaskedCrc32c(absl::string_view bytes) {
  constexpr uint32_t kMaskDelta = 0xa282ead8;
  const uint32_t crc = Crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + kMaskDelta;
}

std::string FrameRecord(absl::string_view payload) {
  const std::string length = LittleEndian(payload.size(), kLengthBytes);
  return absl::StrCat(length, LittleEndian(MaskedCrc32c(length), kCrcBytes), payload,
                      LittleEndian(MaskedCrc32c(payload), kCrcBytes));
}

bool RecordReader::ReadChecked(size_t bytes, std::string* text) {
  std::string crc;
  return Read(in_, bytes, text) && Read(in_, kCrcBytes, &crc) &&
         FromLittleEndian(crc) == MaskedCrc32c(*text);
}

bool RecordReader::Next(std::string* payload) {
  std::string length_text;
  if (!ReadChecked(kLengthBytes, &length_text)) return false;
  const uint64_t length = FromLittleEndian(length_text);
  if (length > kPayloadBytesMax || !ReadChecked(length, payload)) return false;
  whole_bytes_ += static_cast<int64_t>(kLengthBytes + kCrcBytes + length + kCrcBytes);
  return true;
}

}  // namespace strata::tensorboard
