#ifndef STRATA_COMPARE_CAMPAIGN_SPLIT_OUTSIDE_H_
#define STRATA_COMPARE_CAMPAIGN_SPLIT_OUTSIDE_H_

#include <functional>
#include <string>
#include <vector>

namespace strata::compare {

// Cuts `text` at the characters, by their place, that `separates` says, outside of brackets and
// quotes; at least one part.
std::vector<std::string> SplitOutside(const std::string& text,
                                      const std::function<bool(size_t)>& separates);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_CAMPAIGN_SPLIT_OUTSIDE_H_
