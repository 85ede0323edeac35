#ifndef STRATA_TESTS_NETNS_NETWORK_H_
#define STRATA_TESTS_NETNS_NETWORK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/os/process.h"

namespace strata::tests {

// Moves this process, and with it all that it starts, into a network of its own, in which it has
// root's rights. Nothing of it is visible outside or outlives this process, however that ends: the
// kernel removes a network with its last process. Call it in main, before there is a second thread.
void EnterOwnNetwork();
// True if that went well. Errors: PermissionDenied, which says what it takes; what `ip` said.
const absl::Status& OwnNetwork();

// Hosts as network namespaces, plugged into a switch at which this process sits, too. Host N has
//   eth0   10.77.0.N/24    the cable to the switch
//   mgmt0  172.30.N.1/24   another network, of which the other hosts know nothing; the first by
//                          number, so that whoever takes "the first interface" takes this one
// Threads: one. The hosts vanish with this object.
class Network {
 public:
  // REQUIRES: EnterOwnNetwork has succeeded. Errors: what `ip` said.
  static absl::StatusOr<std::unique_ptr<Network>> Create();
  ~Network();

  // `number` is from 1 to 200.
  absl::Status AddHost(const std::string& name, int number);
  static std::string AddressOf(int number);

  // The beginning of a command line that runs the rest on that host.
  std::vector<std::string> On(const std::string& host) const;
  // Runs `ip ARGS` there.
  absl::Status Ip(const std::string& host, const std::vector<std::string>& args);
  // Pulls the host's cable, or plugs it in again. The host's own interface is not touched.
  absl::Status SetLink(const std::string& host, bool up);
  // From Part on neither of two hosts gets what the other one sends, and nobody is told; until
  // Join.
  absl::Status Part(const std::string& host, const std::string& other);
  absl::Status Join(const std::string& host, const std::string& other);
  // What the host has sent over its cable so far, and what came to it.
  struct Traffic {
    uint64_t sent_bytes = 0;
    uint64_t received_bytes = 0;
  };
  Traffic TrafficOf(const std::string& host) const;

 private:
  struct Host {
    int number = 0;
    std::unique_ptr<Process> keeper;  // of its namespace
  };

  Network() = default;

  std::map<std::string, Host> hosts_;
};

}  // namespace strata::tests

#endif  // STRATA_TESTS_NETNS_NETWORK_H_
