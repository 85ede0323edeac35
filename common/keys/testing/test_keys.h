#ifndef STRATA_COMMON_KEYS_TESTING_TEST_KEYS_H_
#define STRATA_COMMON_KEYS_TESTING_TEST_KEYS_H_

#include <set>
#include <string>

#include "absl/time/time.h"
#include "common/keys/authority.h"
#include "common/keys/identity.h"
#include "common/keys/key_file.h"

namespace strata::keys {

// Keys and certificates for tests; a failure to make one aborts the test.

// An authority that is valid around the given time for 30 days.
Authority MakeAuthority(const std::string& cluster, absl::Time now);

// What a member has that the authority let in.
KeyFile MakeKeyFile(const Authority& authority, const Identity& identity, absl::Time not_before,
                    absl::Time not_after);

// The keys of a cluster, in files of a folder. They are valid for an hour.
class KeyFolder {
 public:
  explicit KeyFolder(std::string folder);

  // Returns the path of a file with a member's keys; a member has the same ones each time.
  std::string PathOf(Role role, const std::string& name);
  const Authority& authority() const { return authority_; }

 private:
  const std::string folder_;
  const Authority authority_;
  std::set<std::string> made_;
};

}  // namespace strata::keys

#endif  // STRATA_COMMON_KEYS_TESTING_TEST_KEYS_H_
