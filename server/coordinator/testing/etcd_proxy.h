#ifndef STRATA_SERVER_COORDINATOR_TESTING_ETCD_PROXY_H_
#define STRATA_SERVER_COORDINATOR_TESTING_ETCD_PROXY_H_

#include <memory>
#include <string>

namespace strata::server {

// Passes the calls of one client on to an etcd, but for what a test wants done to its transactions.
class EtcdProxy {
 public:
  explicit EtcdProxy(const std::string& etcd);
  ~EtcdProxy();  // nothing is held then

  std::string endpoint() const;

  // The next transactions are made, and their callers told that etcd is not there.
  void LoseAnswers(int count);
  // The next transaction waits here, also when its caller does no longer, until ReleaseHeld, which
  // returns once it has been passed on and answered; whether its comparisons held.
  void HoldNext();
  bool ReleaseHeld();

 private:
  class Service;
  std::unique_ptr<Service> service_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_TESTING_ETCD_PROXY_H_
