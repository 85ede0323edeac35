#ifndef STRATA_COMMON_S3_REQUESTS_H_
#define STRATA_COMMON_S3_REQUESTS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/s3/http.h"
#include "common/s3/settings.h"
#include "common/s3/xml.h"

namespace strata::s3 {

// How long a store is waited for.
struct Limits {
  // A request that moves no byte for so long has failed.
  absl::Duration stall_after = absl::Seconds(30);
  // A request that failed is tried again until so long after its first failure.
  absl::Duration retry_for = absl::Minutes(1);
  absl::Duration first_pause = absl::Milliseconds(100);  // doubled for each try, to at most 10 s
  // All of a call, whatever moves.
  absl::Duration deadline = absl::Minutes(30);
  // An object that is larger goes in parts; as many bytes are sent again where a connection breaks.
  uint64_t part_bytes = 64 << 20;
  // A list that has more is refused.
  size_t list_names_max = 1 << 20;
  size_t list_pages_max = 10'000;
};

struct S3Request {
  std::string method;
  std::string key;                           // empty: the bucket itself
  std::map<std::string, std::string> query;  // signatures want it in order
  std::vector<std::string> headers;
  absl::Span<const absl::Span<const char>> body;
  bool wants_object = false;  // the answer's body is an object
  uint64_t object_bytes_max = UINT64_MAX;
  bool wants_xml = false;  // the answer's body is XML
  bool once = false;       // it is not tried again
  bool not_twice = false;  // it has another answer the second time: see `maybe_done`
  absl::Time deadline;
};

struct S3Reply {
  HttpReply http;
  XmlElement xml;
};

// Sends requests to a bucket until they have an answer that lasts.
//
// Threads: any; each request blocks its own.
class Requests {
 public:
  Requests(const Curl& curl, const Settings& settings, const Limits& limits, std::stop_token stop);

  // Returns an answer that says the request was carried out. What may pass is tried again with
  // growing pauses: no connection, one that broke or stood still, 429, 5xx, damage on the way.
  // `maybe_done`, of a request that is `not_twice`: an earlier try may have been carried out,
  // unheard of.
  //
  // Errors name the object and never show credentials: NotFound (no such key or upload),
  // AlreadyExists (If-None-Match), PermissionDenied (with the credentials' source),
  // FailedPrecondition (no such bucket, another region, TLS, any other refusal), InvalidArgument
  // (an object larger than it may be), Unimplemented,
  // Unavailable (it kept failing; the last failure, and how often), ResourceExhausted,
  // DeadlineExceeded, Cancelled.
  absl::StatusOr<S3Reply> Send(const S3Request& request, bool* maybe_done = nullptr);

  absl::Time Now() const { return http_.Now(); }
  const Settings& settings() const { return settings_; }
  const Limits& limits() const { return limits_; }

 private:
  // One try. `may_pass`: its error is one of those that are tried again.
  absl::StatusOr<S3Reply> Try(const S3Request& request, bool* may_pass);
  // Returns the error of an answer that is not a success. `code`, `message`: from its XML.
  absl::Status Refusal(const HttpReply& reply, const std::string& code, const std::string& message,
                       bool* may_pass) const;
  // Waits; false: not to its end, for it was stopped.
  bool Pause(absl::Duration duration) const;
  std::string Url(const S3Request& request) const;
  // Takes credentials out of what a server says.
  std::string Redact(const std::string& text) const;

  const Settings settings_;
  const Limits limits_;
  const std::stop_token stop_;
  Http http_;
  std::atomic<uint64_t> pauses_{0};
};

// Returns the CRC-32 of bytes as S3 writes it: base64 of its four bytes, the highest first.
std::string Crc32Of(absl::Span<const absl::Span<const char>> pieces);

}  // namespace strata::s3

#endif  // STRATA_COMMON_S3_REQUESTS_H_
