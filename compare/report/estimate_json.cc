#include "compare/report/estimate_json.h"

namespace strata::compare {

nlohmann::ordered_json ToJson(const std::optional<Estimate>& estimate) {
  using Json = nlohmann::ordered_json;
  if (!estimate) return nullptr;
  Json json = {{"mean", estimate->mean}, {"count", estimate->count}};
  json["low"] = estimate->interval ? Json(estimate->interval->low) : Json(nullptr);
  json["high"] = estimate->interval ? Json(estimate->interval->high) : Json(nullptr);
  return json;
}

}  // namespace strata::compare
