#ifndef STRATA_TESTS_E2E_S3_MOTO_H_
#define STRATA_TESTS_E2E_S3_MOTO_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "common/process/environment.h"
#include "common/process/process.h"
#include "common/unique_fd.h"

namespace strata {

// A server of S3 of somebody else's (moto_server.py) as a child process, with an empty bucket
// "bucket". It ends with this object.
class Moto {
 public:
  // Null, and a failure of the test that says why: it does not start.
  static std::unique_ptr<Moto> Start();

  // Returns what leads a store to it, over TLS or not.
  Environment Variables(bool tls) const;
  // Returns a fact that it has printed: "secret".
  std::string Fact(const std::string& name) const { return facts_.at(name).get<std::string>(); }
  uint16_t port(bool tls) const;

 private:
  Moto() = default;

  std::unique_ptr<Process> process_;
  UniqueFd its_input_;
  nlohmann::json facts_;
};

}  // namespace strata

#endif  // STRATA_TESTS_E2E_S3_MOTO_H_
