#ifndef STRATA_COMMON_S3_HTTP_H_
#define STRATA_COMMON_S3_HTTP_H_

#include <curl/curl.h>

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
#include "common/s3/settings.h"

namespace strata::s3 {

inline constexpr char kCurlLibrary[] = "libcurl.so.4";

// The functions of libcurl that are called, from the library of this host: programs and wheels are
// not linked with it, so that hosts without S3 need none.
struct Curl {
  decltype(&::curl_easy_init) easy_init = nullptr;
  decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&::curl_easy_reset) easy_reset = nullptr;
  decltype(&::curl_easy_setopt) easy_setopt = nullptr;
  decltype(&::curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&::curl_easy_strerror) easy_strerror = nullptr;
  decltype(&::curl_multi_init) multi_init = nullptr;
  decltype(&::curl_multi_cleanup) multi_cleanup = nullptr;
  decltype(&::curl_multi_add_handle) multi_add_handle = nullptr;
  decltype(&::curl_multi_remove_handle) multi_remove_handle = nullptr;
  decltype(&::curl_multi_perform) multi_perform = nullptr;
  decltype(&::curl_multi_poll) multi_poll = nullptr;
  decltype(&::curl_multi_wakeup) multi_wakeup = nullptr;
  decltype(&::curl_multi_info_read) multi_info_read = nullptr;
  decltype(&::curl_slist_append) slist_append = nullptr;
  decltype(&::curl_slist_free_all) slist_free_all = nullptr;
};

// Loads it; it stays for the life of the process. Errors: FailedPrecondition saying what to
// install: it is not there, or older than 7.88, which signs requests to S3 wrongly.
absl::StatusOr<Curl> LoadCurl(const std::string& file = kCurlLibrary);

class Transfer;

struct HttpRequest {
  std::string method;  // GET, PUT, POST or DELETE
  std::string url;
  std::vector<std::string> headers;  // "Name: value", with a value
  absl::Span<const absl::Span<const char>> body;
  bool wants_object = false;  // the answer's body goes to `object`, if its status is 200
  uint64_t object_bytes_max = UINT64_MAX;  // a larger object is refused before memory is taken
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
  // without trust), InvalidArgument (an object that is too large), ResourceExhausted (memory),
  // DeadlineExceeded, Cancelled.
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
