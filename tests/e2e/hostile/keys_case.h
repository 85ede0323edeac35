#ifndef STRATA_TESTS_E2E_HOSTILE_KEYS_CASE_H_
#define STRATA_TESTS_E2E_HOSTILE_KEYS_CASE_H_

#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/keys/identity.h"
#include "common/testing/short_folder.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"

namespace strata::tests {

inline constexpr absl::Duration kHour = absl::Hours(1);

// Texts that tell people to renew a certificate.
inline constexpr char kMakesAToken[] = " on the coordinator's host makes a token for a new one";

// The whole line in a command's standard error, without its prefix; times that no test can know
// read TIME.
std::string LineOf(const CommandResult& result);
// The same for a given text.
std::string WithoutTimes(const std::string& text);

// A coordinator of cluster blue, whose keys `strata keys init` has made.
class KeysCase : public testing::Test {
 protected:
  void SetUp() override;
  // Starts a coordinator on another state folder. `args`: extra arguments of its command line.
  absl::StatusOr<Daemon> StartCoordinator(const std::string& state, std::vector<std::string> args);

  std::string PathOf(const std::string& name) const { return TestDir() + "/" + name; }
  // Writes a file with keys that the cluster's own authority has signed. They begin and end at
  // these offsets from now_.
  std::string Keys(keys::Role role, const std::string& name, absl::Duration begins = -kHour,
                   absl::Duration ends = kHour);
  // Writes a file that only this user may read.
  std::string File(const std::string& name, const std::string& content) const;
  // Runs `strata keys ARGS` as the operator; returns what it prints.
  std::string Operator(std::vector<std::string> args) const;
  // Writes the token that `strata keys ARGS` makes to a file.
  std::string Token(const std::string& name, const std::vector<std::string>& args) const;

  // Returns the refusal of `strata ARGS`, by the coordinator or before it is reached.
  std::string Refused(const std::vector<std::string>& args,
                      const std::string& timeout = "10") const;
  std::string Join(const std::string& token, const std::vector<std::string>& args) const;
  // The same for a daemon.
  std::string RefusedDaemon(std::vector<std::string> args, const std::string& timeout = "10") const;

  const absl::Time now_ = absl::FromUnixSeconds(absl::ToUnixSeconds(absl::Now()));
  const ShortFolder runtime_;
  std::string state_, address_, socket_;
  std::string at_;  // how lines about the coordinator begin
  Daemon coordinator_;
};

}  // namespace strata::tests

#endif  // STRATA_TESTS_E2E_HOSTILE_KEYS_CASE_H_
