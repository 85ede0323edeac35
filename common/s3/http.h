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

// The functions of libcurl that are used, loaded from this host's library: programs and wheels do
// not link to it, so that hosts without S3 do not need it.
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

// Loads it; it stays for the life of the process. Errors: FailedPrecondition with what to install:
// it is missing, or older than 7.88, which signs requests to S3 wrongly.
absl::StatusOr<Curl> LoadCurl(const std::string& file = kCurlLibrary);

class Transfer;

struct HttpRequest {
  std::string method;  // GET, PUT, POST or DELETE
  std::string url;
  std::vector<std::string> headers;  // "Name: value", with a value
  absl::Span<const absl::Span<const char>> body;
  bool wants_object = false;               // on status 200 the answer's body goes to `object`
  uint64_t object_bytes_max = UINT64_MAX;  // a larger object is refused before memory is allocated
  // Use a new connection: if a reused one breaks, libcurl silently sends a request once more.
  bool fresh = false;
};

struct HttpReply {
  long status = 0;
  std::map<std::string, std::string> headers;  // by names in lower case
  std::string text;                            // the body, unless it is in `object`
  Bytes object;                                // at an address that is aligned for all types
};

// Sends requests that are signed for S3, one try each, and reuses connections.
//
// Threads: any; each request blocks only its own.
class Http {
 public:
  struct Options {
    std::string region;
    Credentials credentials;
    std::string ca_bundle;
    absl::Duration stall_after;  // a request that makes no progress for this long has failed
    std::stop_token stop;        // ends requests at once
  };

  Http(const Curl& curl, Options options);
  ~Http();
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;

  // Returns the answer, whatever its status. Errors, which name the address: Unavailable (no
  // connection, one that broke or stalled, a truncated answer), FailedPrecondition (TLS without
  // trust), InvalidArgument (an object that is too large), ResourceExhausted (memory),
  // DeadlineExceeded, Cancelled.
  absl::StatusOr<HttpReply> Do(const HttpRequest& request, absl::Time deadline);

  // Never goes back; the clock of deadlines.
  absl::Time Now() const { return clock_.Now(); }

 private:
  // A handle for one request at a time, with its open connections.
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
