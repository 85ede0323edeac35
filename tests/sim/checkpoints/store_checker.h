#ifndef STRATA_TESTS_SIM_CHECKPOINTS_STORE_CHECKER_H_
#define STRATA_TESTS_SIM_CHECKPOINTS_STORE_CHECKER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/testing/faulty_store.h"

namespace strata::sim {

// Holds what is on a disk of checkpoints against what was cut. Looks at the bytes themselves. What
// it returns is empty, or "INVARIANT: what is wrong".
class StoreChecker {
 public:
  // `disk` outlives it.
  explicit StoreChecker(const FaultyDisk& disk) : disk_(disk) {}

  // An object that a writer is to put, with what its images were when they were cut.
  void OnCut(const std::string& object, std::string content);
  // Any time: what a manifest names is there, is what was cut, and is all of it; a checkpoint that
  // was kept has not gone without a newer one.
  std::string Check();
  // A checkpoint has been kept, and so have at most `keep` of them, if all others could be deleted.
  std::string CheckKept(uint64_t clock, uint32_t keep, bool others_deleted);
  // The status of a server or node that could not load names an object that is damaged.
  std::string CheckNamed(const absl::Status& refused) const;
  // Manifests that are damaged, and newer than that of `clock`, are named in what was passed over.
  // `damaged`: those of before.
  static std::string CheckPassedOver(const std::set<std::string>& damaged, uint64_t clock,
                                     const std::vector<std::string>& passed_over);

  // The clock of the newest checkpoint that is whole; none: there is none.
  std::optional<uint64_t> Newest() const;

 private:
  bool IsWhole(const Manifest& manifest) const;
  // By clock: those that can be read.
  std::map<uint64_t, Manifest> Manifests() const;
  // Why it is not whole; empty: it is, but for what was damaged on purpose.
  std::string FaultIn(const Manifest& manifest) const;
  bool IsDamaged(const Manifest& manifest) const;

  const FaultyDisk& disk_;
  std::map<std::string, std::string> cut_;  // by object
  std::set<uint64_t> kept_;                 // clocks, of those that were whole at the last check
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CHECKPOINTS_STORE_CHECKER_H_
