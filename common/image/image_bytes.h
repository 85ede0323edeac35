#ifndef STRATA_COMMON_IMAGE_IMAGE_BYTES_H_
#define STRATA_COMMON_IMAGE_IMAGE_BYTES_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/bytes.h"
#include "common/image/image_tensors.h"

namespace strata {

// For tests: bytes that own their content.
inline Bytes OwnBytes(std::string content) {
  const auto owner = std::make_shared<std::string>(std::move(content));
  return Bytes(owner, reinterpret_cast<const std::byte*>(owner->data()), owner->size());
}

inline Bytes FloatBytes(std::vector<float> values) {
  const auto owner = std::make_shared<std::vector<float>>(std::move(values));
  return Bytes(owner, reinterpret_cast<const std::byte*>(owner->data()),
               owner->size() * sizeof(float));
}

// Returns all of a file.
inline std::string Joined(const ImageFile& file) {
  std::string joined;
  for (const auto piece : file.Pieces()) joined.append(piece.data(), piece.size());
  return joined;
}

}  // namespace strata

#endif  // STRATA_COMMON_IMAGE_IMAGE_BYTES_H_
