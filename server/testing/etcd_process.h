#ifndef STRATA_SERVER_TESTING_ETCD_PROCESS_H_
#define STRATA_SERVER_TESTING_ETCD_PROCESS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/os/process.h"
#include "server/coordinator/service/etcd_client.h"

namespace strata::server {

// Limits for starting a real etcd.
inline constexpr char kEtcd[] = "/usr/bin/etcd";
inline constexpr absl::Duration kEtcdStartMax = absl::Seconds(60);
inline constexpr absl::Duration kEtcdLook = absl::Milliseconds(500);
inline constexpr int kEtcdStartsMax = 5;  // another process may take a port that was free
// Errors: NotFound: the program is not installed.
absl::Status CheckEtcdIsThere();

// A real etcd of one member for tests, on free ports of loopback, with its data in a folder of its
// own. It ends with this object.
class EtcdProcess {
 public:
  struct Options {
    // Files in PEM: etcd speaks TLS and requires a certificate of the same authority.
    std::string ca_file = {};
    std::string cert_file = {};
    std::string key_file = {};
    std::vector<std::string> more = {};  // options of etcd
  };

  // Waits until it answers. Errors name the cause, such as a missing package; etcd's output is in
  // the folder's etcd.log.
  static absl::StatusOr<std::unique_ptr<EtcdProcess>> Start(const std::string& folder,
                                                            const Options& options);
  static absl::StatusOr<std::unique_ptr<EtcdProcess>> Start(const std::string& folder) {
    return Start(folder, Options());
  }

  std::string endpoint() const;  // "127.0.0.1:PORT"
  // The options of a client with the same keys.
  EtcdClient::Options ClientOptions(absl::Duration deadline = absl::Seconds(20)) const;
  std::shared_ptr<EtcdClient> Client(absl::Duration deadline = absl::Seconds(20)) const;

  // After SIGSTOP all of its threads are paused.
  void Signal(int signal);
  // Kills it; Restart starts it again with its data and ports.
  void Kill();
  absl::Status Restart();

 private:
  EtcdProcess(std::string folder, Options options, uint16_t port, uint16_t peer_port);

  const std::string folder_;
  const Options options_;
  const uint16_t port_;
  const uint16_t peer_port_;
  std::unique_ptr<Process> process_;
};

// Passes the calls of one client on to an etcd, and manipulates its transactions for a test.
class EtcdProxy {
 public:
  explicit EtcdProxy(const std::string& etcd);
  ~EtcdProxy();  // releases held transactions

  std::string endpoint() const;

  // The next `count` transactions are made, but their callers get an error as if etcd were
  // unreachable.
  void LoseAnswers(int count);
  // Holds the next transaction, even after its caller has given up, until ReleaseHeld, which passes
  // it on and returns whether its comparisons succeeded.
  void HoldNext();
  bool ReleaseHeld();

 private:
  class Service;
  std::unique_ptr<Service> service_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_TESTING_ETCD_PROCESS_H_
