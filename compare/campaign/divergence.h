#ifndef STRATA_COMPARE_CAMPAIGN_DIVERGENCE_H_
#define STRATA_COMPARE_CAMPAIGN_DIVERGENCE_H_

#include <string>

namespace strata::compare {

// Whether a run with that failure (RunRecord) failed because training diverged, by the words that
// trainers have for it: "rank 2: loss is NaN at step 310", "the gradient of chunk 3 is not finite
// at step 7", "node 2: chunk 0 at step 102: the sum of the gradients has NaN or infinity", "element
// 2 is NaN as fp32". Such a run would fail again. Any other failure (a process was killed, data is
// missing) says nothing of the mode.
bool HasDiverged(const std::string& failure);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_CAMPAIGN_DIVERGENCE_H_
