#ifndef STRATA_COMMON_S3_HTTP_H_
#define STRATA_COMMON_S3_HTTP_H_

#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/bytes.h"
#include "common/clock.h"
#include "common/s3/curl_library.h"
#include "common/s3/settings.h"

namespace strata::s3 {

class Transfer;

struct HttpRequest {
  std::string method;  // GET, PUT, POST or DELETE
  std::string url;
  std::vector<std::string> headers;  // "Name: value", with a value
  absl::Span<const absl::Span<const char>> body;
  bool wants_object = false;  // the answer's body goes to `object`, if its status is 200
  // On a connection of its own: where one that was kept breaks, libcurl sends a request once more
  // and does not say so.
  bool fresh = false;
};

struct HttpReply {
  long status = 0;
  std::map<std::string, std::string> headers;  // by names in lower case
  std::string text;                            // the body, unless it is in `object`
  Bytes object;                                // at an address that is aligned for all types
};

// Sends requests that are signed for S3, one try each, and keeps connections for the next ones.
//
// Threads: any; each request blocks its own.
class Http {
 public:
  struct Options {
    std::string region;
    Credentials credentials;
    std::string ca_bundle;
    absl::Duration stall_after;  // a request that moves no byte for so long has failed
    std::stop_token stop;        // ends requests at once
  };

  Http(const Curl& curl, Options options);
  ~Http();
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;

  // Returns the answer, whatever its status. Errors, which say to what address: Unavailable (no
  // connection, one that broke or stood still, an answer that was cut off), FailedPrecondition (TLS
  // without trust), ResourceExhausted (memory), DeadlineExceeded, Cancelled.
  absl::StatusOr<HttpReply> Do(const HttpRequest& request, absl::Time deadline);

  // Never goes back; what deadlines are told by.
  absl::Time Now() const { return clock_.Now(); }

 private:
  // A handle for one request at a time, and the connections that it keeps.
  struct Line {
    CURL* easy = nullptr;
    CURLM* multi = nullptr;
  };

  absl::StatusOr<Line> TakeLine();
  void GiveLineBack(const Line& line);
  // Runs until the transfer has ended. Errors: as of Do.
  absl::Status Run(const Line& line, Transfer& transfer, absl::Time deadline);

  const Curl curl_;
  const Options options_;
  const RealClock clock_;
  absl::Mutex mutex_;
  std::vector<Line> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strata::s3

#endif  // STRATA_COMMON_S3_HTTP_H_
