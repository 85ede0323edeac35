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

// Moves this process and its future children into a network of its own, in which it has root's
// rights. Nothing of it is visible outside or outlives this process, however it ends: the kernel
// removes a network with its last process. Call it in main, before there is a second thread.
void EnterOwnNetwork();
// Returns whether that succeeded. Errors: PermissionDenied, which names what is required; otherwise
// the output of `ip`.
const absl::Status& OwnNetwork();

// Hosts as network namespaces, plugged into a switch at which this process sits, too. Host N has
//   eth0   10.77.0.N/24    the cable to the switch
//   mgmt0  172.30.N.1/24   another network, of which the other hosts know nothing; the first by
//                          number, so that whoever takes "the first interface" takes this one
// Threads: one. The hosts vanish with this object.
class Network {
 public:
  // REQUIRES: EnterOwnNetwork has succeeded. Errors: the output of `ip`.
  static absl::StatusOr<std::unique_ptr<Network>> Create();
  ~Network();

  // `number` is from 1 to 200.
  absl::Status AddHost(const std::string& name, int number);
  static std::string AddressOf(int number);

  // Returns the beginning of a command line that runs the rest on that host.
  std::vector<std::string> On(const std::string& host) const;
  // Runs `ip ARGS` on the host.
  absl::Status Ip(const std::string& host, const std::vector<std::string>& args);
  // Pulls the host's cable, or plugs it in again. The host's own interface is not touched.
  absl::Status SetLink(const std::string& host, bool up);
  // After Part the switch drops packets between the two hosts, silently, until Join.
  absl::Status Part(const std::string& host, const std::string& other);
  absl::Status Join(const std::string& host, const std::string& other);
  // Bytes that the host has sent and received over its cable so far.
  struct Traffic {
    uint64_t sent_bytes = 0;
    uint64_t received_bytes = 0;
  };
  Traffic TrafficOf(const std::string& host) const;

 private:
  struct Host {
    int number = 0;
    std::unique_ptr<Process> keeper;  // holds its namespace
  };

  Network() = default;

  std::map<std::string, Host> hosts_;
};

}  // namespace strata::tests

#endif  // STRATA_TESTS_NETNS_NETWORK_H_
