#include "common/s3/requests.h"

#include <zlib.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/synchronization/notification.h"
#include "common/random.h"

namespace strata::s3 {
namespace {

// Returns whether S3 calls a failure transient, whatever its status.
bool MayPass(long status, const std::string& code) {
  if (status == 408 || status == 429 || (status >= 500 && status != 501 && status != 507)) {
    return true;
  }
  for (const char* passing : {"InternalError", "SlowDown", "ServiceUnavailable", "RequestTimeout",
                              "BadDigest", "IncompleteBody", "ConditionalRequestConflict",
                              "OperationAborted", "XAmzContentChecksumMismatch"}) {
    if (code == passing) return true;
  }
  return false;
}

bool IsOfCredentials(long status, const std::string& code) {
  return status == 401 || status == 403 || code == "ExpiredToken" || code == "InvalidToken" ||
         code == "InvalidAccessKeyId" || code == "SignatureDoesNotMatch";
}

// Percent-encodes everything except A-Z a-z 0-9 - . _ ~ (and /), as signatures require.
std::string Encode(absl::string_view text, bool keep_slashes) {
  std::string encoded;
  for (const char c : text) {
    const bool is_plain = absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_' || c == '~';
    if (is_plain || (c == '/' && keep_slashes)) {
      encoded.push_back(c);
    } else {
      absl::StrAppendFormat(&encoded, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

// Returns whether an object matches the checksum that came with it; one uploaded in parts has no
// checksum of the whole.
bool IsWhole(const HttpReply& reply) {
  const auto found = reply.headers.find("x-amz-checksum-crc32");
  if (found == reply.headers.end() || absl::StrContains(found->second, "-")) return true;
  const absl::Span<const char> piece(reinterpret_cast<const char*>(reply.object.data()),
                                     reply.object.size());
  return Crc32Of({&piece, 1}) == found->second;
}

// Returns an error of the same code with more text.
absl::Status Named(const std::string& name, const absl::Status& status, const std::string& more) {
  return absl::Status(status.code(), absl::StrCat(name, ": ", status.message(), more));
}

}  // namespace

std::string Crc32Of(absl::Span<const absl::Span<const char>> pieces) {
  uLong crc = crc32_z(0, nullptr, 0);
  for (const absl::Span<const char> piece : pieces) {
    if (piece.empty()) continue;  // an empty one would start again
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(piece.data()), piece.size());
  }
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(crc >> shift));
  return absl::Base64Escape(bytes);
}

Requests::Requests(const Curl& curl, const Settings& settings, const Limits& limits,
                   std::stop_token stop)
    : settings_(settings),
      limits_(limits),
      stop_(stop),
      http_(curl, {.region = settings.region,
                   .credentials = settings.credentials,
                   .ca_bundle = settings.ca_bundle,
                   .stall_after = limits.stall_after,
                   .stop = stop}) {}

std::string Requests::Url(const S3Request& request) const {
  std::string url =
      absl::StrCat(settings_.BucketUrl(), "/", Encode(request.key, /*keep_slashes=*/true));
  char separator = '?';
  for (const auto& [name, value] : request.query) {
    absl::StrAppend(&url, std::string(1, separator), Encode(name, false), "=",
                    Encode(value, false));
    separator = '&';
  }
  return url;
}

std::string Requests::Redact(const std::string& text) const {
  std::string shown = text;
  const Credentials& credentials = settings_.credentials;
  for (const std::string* hidden : {&credentials.secret, &credentials.token, &credentials.key_id}) {
    if (!hidden->empty()) shown = absl::StrReplaceAll(shown, {{*hidden, "(hidden)"}});
  }
  return shown;
}

absl::StatusOr<S3Reply> Requests::Send(const S3Request& request, bool* maybe_done) {
  constexpr absl::Duration kPauseMax = absl::Seconds(10);
  const std::string name = request.key.empty()
                               ? settings_.Address()
                               : absl::StrCat("s3://", settings_.bucket, "/", request.key);
  absl::Time give_up = absl::InfiniteFuture();
  absl::Duration pause = limits_.first_pause;
  for (int tries = 1;; ++tries) {
    bool may_pass = false;
    absl::StatusOr<S3Reply> reply = Try(request, &may_pass);
    if (reply.ok()) return reply;
    const absl::Status status = reply.status();
    if (!may_pass || request.once) return Named(name, status, "");
    if (maybe_done != nullptr) *maybe_done = true;
    const absl::Time now = Now();
    if (tries == 1) give_up = now + limits_.retry_for;
    // Requests that failed at one time must not return at one time.
    const float part = RandomUniform(reinterpret_cast<uintptr_t>(this), pauses_++);
    const absl::Duration wait = pause * (0.5 + 0.5 * part);
    if (now + wait >= std::min(give_up, request.deadline)) {
      return Named(name, status, absl::StrCat("; tried ", tries, tries == 1 ? " time" : " times"));
    }
    if (!Pause(wait)) return absl::CancelledError(absl::StrCat(name, ": stopped"));
    pause = std::min(2 * pause, kPauseMax);
  }
}

absl::StatusOr<S3Reply> Requests::Try(const S3Request& request, bool* may_pass) {
  HttpRequest http = {.method = request.method,
                      .url = Url(request),
                      .headers = request.headers,
                      .body = request.body,
                      .wants_object = request.wants_object,
                      .object_bytes_max = request.object_bytes_max,
                      .fresh = request.not_twice};
  // Required by S3, and libcurl of 7.88 does not hash a body sent in pieces. Bodies have a checksum
  // of their own.
  http.headers.push_back("x-amz-content-sha256: UNSIGNED-PAYLOAD");
  if (!settings_.credentials.token.empty()) {
    http.headers.push_back(absl::StrCat("x-amz-security-token: ", settings_.credentials.token));
  }
  absl::StatusOr<HttpReply> reply = http_.Do(http, request.deadline);
  if (!reply.ok()) {
    *may_pass = absl::IsUnavailable(reply.status());
    return absl::Status(reply.status().code(), Redact(std::string(reply.status().message())));
  }
  S3Reply done = {.http = *std::move(reply)};
  const bool is_success = done.http.status / 100 == 2;
  if (is_success && !request.wants_xml) {
    if (request.wants_object && done.http.status != 200) {
      return absl::FailedPreconditionError(absl::StrCat(done.http.status, " in place of 200"));
    }
    if (!request.wants_object || IsWhole(done.http)) return done;
    *may_pass = true;
    return absl::DataLossError("it came with a checksum that is not that of its bytes");
  }
  absl::StatusOr<XmlElement> xml = ParseXml(done.http.text);
  if (is_success && !xml.ok()) {
    *may_pass = true;
    return absl::UnavailableError(absl::StrCat(settings_.endpoint, ": ", xml.status().message()));
  }
  if (xml.ok()) done.xml = *std::move(xml);
  // Even status 200 may turn out to be an error: it is sent before long operations are done.
  const bool is_error = done.xml.name == "Error";
  if (is_success && !is_error) return done;
  return Refusal(done.http, is_error ? done.xml.Text("Code") : "",
                 is_error ? done.xml.Text("Message") : "", may_pass);
}

absl::Status Requests::Refusal(const HttpReply& reply, const std::string& code,
                               const std::string& message, bool* may_pass) const {
  constexpr size_t kTextMax = 200;
  std::string text = absl::StrCat(settings_.endpoint, " answers ", reply.status);
  for (const std::string& part : {code, message}) {
    if (part.empty()) continue;
    absl::StrAppend(&text, " ", absl::Utf8SafeCHexEscape(Redact(part).substr(0, kTextMax)));
  }
  *may_pass = MayPass(reply.status, code);
  if (*may_pass) return absl::UnavailableError(text);
  if (IsOfCredentials(reply.status, code)) {
    return absl::PermissionDeniedError(absl::StrCat(text, ", to the credentials of ",
                                                    settings_.credentials.source, " for bucket ",
                                                    settings_.bucket));
  }
  if (code == "NoSuchBucket") {
    return absl::FailedPreconditionError(
        absl::StrCat(text, ": there is no bucket ", settings_.bucket));
  }
  if (reply.status == 404) return absl::NotFoundError(text);
  if (reply.status == 412) return absl::AlreadyExistsError("it is there already");
  if (reply.status == 501) return absl::UnimplementedError(text);
  if (reply.status == 507) return absl::ResourceExhaustedError(text);
  const auto region = reply.headers.find("x-amz-bucket-region");
  if (region != reply.headers.end() && region->second != settings_.region) {
    absl::StrAppend(&text, ": the bucket is in region ", absl::Utf8SafeCHexEscape(region->second),
                    ", not ", settings_.region);
  }
  return absl::FailedPreconditionError(text);
}

bool Requests::Pause(absl::Duration duration) const {
  absl::Notification stopped;
  const std::stop_callback notify(stop_, [&] { stopped.Notify(); });
  return !stopped.WaitForNotificationWithTimeout(duration);
}

}  // namespace strata::s3
