#ifndef STRATA_TESTS_NETNS_OVERHEARD_H_
#define STRATA_TESTS_NETNS_OVERHEARD_H_

#include <string>
#include <vector>

namespace strata::tests {

// What is not to be heard on a network, and whether it was.

// How many of all runs of eight values that follow each other in a tensor of this safetensors file
// are in the streams, at whatever byte. Runs of equal values count for nothing.
size_t WeightRunsIn(const std::vector<std::string>& streams, const std::string& model_path);

// Texts and bytes that tell private keys and tokens, from all files of such below `folder`.
std::vector<std::string> KeysAndTokensBelow(const std::string& folder);

bool IsInAny(const std::vector<std::string>& streams, const std::string& text);
// Those of the secrets that are in the streams, to be shown: in C's escapes.
std::vector<std::string> HeardOf(const std::vector<std::string>& secrets,
                                 const std::vector<std::string>& streams);

}  // namespace strata::tests

#endif  // STRATA_TESTS_NETNS_OVERHEARD_H_
