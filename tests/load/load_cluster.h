#ifndef STRATA_TESTS_LOAD_LOAD_CLUSTER_H_
#define STRATA_TESTS_LOAD_LOAD_CLUSTER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/control/credentials.h"
#include "common/keys/testing/test_keys.h"
#include "common/limits/process_use.h"
#include "common/process/process.h"

namespace strata::tests {

// A real coordinator and real servers, as processes of this one; killed with it.
class LoadCluster {
 public:
  struct Options {
    std::string strata;  // the binary
    std::string dir;     // for state and logs
    uint32_t servers = 2;
    uint32_t shards = 1;  // per server
  };
  // The most that one of them had, and its limits.
  struct Member {
    std::string name;
    std::unique_ptr<Process> process;
    ProcessUse most;
  };

  explicit LoadCluster(Options options) : options_(std::move(options)) {}

  // All are ready then. Errors: DeadlineExceeded and FailedPrecondition with what one wrote.
  absl::Status Start();
  // Looks at what each has now.
  void Measure();
  // SIGTERM to all, servers first. Errors: Internal, naming one that did not end well.
  absl::Status Stop();

  const std::string& coordinator() const { return coordinator_; }
  // Returns the file with them.
  std::string KeysOf(keys::Role role, const std::string& name) { return keys_->PathOf(role, name); }
  control::Credentials CredentialsOf(keys::Role role, const std::string& name) {
    return control::Credentials::File(KeysOf(role, name));
  }
  const std::vector<Member>& members() const { return members_; }

 private:
  absl::Status StartMember(const std::string& name, std::vector<std::string> args,
                           std::string* ready_line);

  const Options options_;
  std::optional<keys::KeyFolder> keys_;
  std::string coordinator_;  // HOST:PORT
  std::vector<Member> members_;
};

}  // namespace strata::tests

#endif  // STRATA_TESTS_LOAD_LOAD_CLUSTER_H_
