#ifndef STRATA_COMMON_IMAGE_IMAGE_COUNTS_H_
#define STRATA_COMMON_IMAGE_IMAGE_COUNTS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/image/chunk_image.h"

// The counts of images, as files have them in their metadata.
namespace strata {

// Of one optimizer or encoder; no kind has more.
inline constexpr uint64_t kImageVectorsMax = 8;

inline nlohmann::json CountsOf(const WeightImage& image) {
  return {{"version", image.version},
          {"updates", image.updates},
          {"samples", image.samples},
          {"state", image.state.size()}};
}

// Reads a field of a JSON object. False: it is missing, or no number from 0 on.
inline bool ReadCount(const nlohmann::json& object, const char* name, uint64_t* out) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_unsigned()) return false;
  *out = found->get<uint64_t>();
  return true;
}

// Reads what CountsOf wrote, and how many vectors of state there are. False: a count is missing.
inline bool ReadCounts(const nlohmann::json& counts, WeightImage* image, uint64_t* states) {
  return ReadCount(counts, "version", &image->version) &&
         ReadCount(counts, "updates", &image->updates) &&
         ReadCount(counts, "samples", &image->samples) && ReadCount(counts, "state", states);
}

// Reads the first element of a range from its name. Only the number's own text: "7", not "07".
inline bool ReadBegin(const std::string& name, uint64_t* begin) {
  return absl::SimpleAtoi(name, begin) && absl::StrCat(*begin) == name;
}

}  // namespace strata

#endif  // STRATA_COMMON_IMAGE_IMAGE_COUNTS_H_
