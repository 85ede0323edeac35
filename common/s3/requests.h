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

// How long to wait for a store.
struct Limits {
  // A request that makes no progress for this long has failed.
  absl::Duration stall_after = absl::Seconds(30);
  // A failed request is retried until this long after its first failure.
  absl::Duration retry_for = absl::Minutes(1);
  absl::Duration first_pause = absl::Milliseconds(100);  // doubled for each try, up to 10 s
  // For a whole call, even with progress.
  absl::Duration deadline = absl::Minutes(30);
  // A larger object is uploaded in parts; this many bytes are repeated if a connection breaks.
  uint64_t part_bytes = 64 << 20;
  // A longer list is refused.
  size_t list_names_max = 1 << 20;
  size_t list_pages_max = 10'000;
};

struct S3Request {
  std::string method;
  std::string key;                           // empty: the bucket itself
  std::map<std::string, std::string> query;  // sorted, as signatures require
  std::vector<std::string> headers;
  absl::Span<const absl::Span<const char>> body;
  bool wants_object = false;  // the answer's body is an object
  uint64_t object_bytes_max = UINT64_MAX;
  bool wants_xml = false;  // the answer's body is XML
  bool once = false;       // no retries
  bool not_twice = false;  // the second try gets another answer: see `maybe_done`
  absl::Time deadline;
};

struct S3Reply {
  HttpReply http;
  XmlElement xml;
};

// Sends requests to a bucket until they have a final answer.
//
// Threads: any; each request blocks only its own.
class Requests {
 public:
  Requests(const Curl& curl, const Settings& settings, const Limits& limits, std::stop_token stop);

  // Returns the answer of a successful request. Transient failures are retried with growing pauses:
  // no connection, one that broke or stalled, 429, 5xx, damage in transit. `maybe_done`, for a
  // request that is `not_twice`: an earlier try may have been carried out without an answer.
  //
  // Errors name the object and never show credentials: NotFound (no such key or upload),
  // AlreadyExists (If-None-Match), PermissionDenied (with the credentials' source),
  // FailedPrecondition (no such bucket, another region, TLS, any other refusal), InvalidArgument
  // (an object that is too large), Unimplemented, Unavailable (it kept failing; the last failure,
  // and how often), ResourceExhausted, DeadlineExceeded, Cancelled.
  absl::StatusOr<S3Reply> Send(const S3Request& request, bool* maybe_done = nullptr);

  absl::Time Now() const { return http_.Now(); }
  const Settings& settings() const { return settings_; }
  const Limits& limits() const { return limits_; }

 private:
  // Makes one try. `may_pass`: its error is transient.
  absl::StatusOr<S3Reply> Try(const S3Request& request, bool* may_pass);
  // Returns the error of an answer that is not a success. `code`, `message`: from its XML.
  absl::Status Refusal(const HttpReply& reply, const std::string& code, const std::string& message,
                       bool* may_pass) const;
  // Waits; returns false if it was stopped.
  bool Pause(absl::Duration duration) const;
  std::string Url(const S3Request& request) const;
  // Removes credentials from a server's text.
  std::string Redact(const std::string& text) const;

  const Settings settings_;
  const Limits limits_;
  const std::stop_token stop_;
  Http http_;
  std::atomic<uint64_t> pauses_{0};
};

// Returns the CRC-32 of bytes in S3's format: base64 of its four bytes, big-endian.
std::string Crc32Of(absl::Span<const absl::Span<const char>> pieces);

}  // namespace strata::s3

#endif  // STRATA_COMMON_S3_REQUESTS_H_
