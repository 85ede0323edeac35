#include "common/s3/transfer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/aligned_memory.h"

namespace strata::s3 {
namespace {

// A page of a list has 1,000 names of at most 1,024 bytes, all of which may be escaped.
constexpr size_t kTextBytesMax = 16 << 20;
constexpr size_t kHeadersMax = 200;

uint64_t BytesOf(absl::Span<const absl::Span<const char>> pieces) {
  uint64_t bytes = 0;
  for (const absl::Span<const char> piece : pieces) bytes += piece.size();
  return bytes;
}

}  // namespace

Transfer::Transfer(const Curl& curl, CURL* easy, const HttpRequest& request)
    : curl_(curl), easy_(easy), request_(request) {}

Transfer::~Transfer() {
  curl_.easy_reset(easy_);  // it refers to what ends here
  curl_.slist_free_all(headers_);
}

template <typename Value>
void Transfer::Option(CURLoption option, Value value) {
  const CURLcode result = curl_.easy_setopt(easy_, option, value);
  if (set_ == CURLE_OK) set_ = result;
}

absl::Status Transfer::Set(const Http::Options& options) {
  for (const std::string& header : request_.headers) {
    curl_slist* const more = curl_.slist_append(headers_, header.c_str());
    if (more == nullptr) return absl::ResourceExhaustedError("no memory for a request");
    headers_ = more;
  }
  Option(CURLOPT_URL, request_.url.c_str());
  Option(CURLOPT_PROTOCOLS_STR, "http,https");
  Option(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  Option(CURLOPT_PATH_AS_IS, 1L);  // a key may have ".." in it
  Option(CURLOPT_HTTPHEADER, headers_);
  Option(CURLOPT_ERRORBUFFER, why_);
  Option(CURLOPT_NOSIGNAL, 1L);
  // A resolver that is at work does not hold back the end of a request.
  Option(CURLOPT_QUICK_EXIT, 1L);
  if (!options.ca_bundle.empty()) Option(CURLOPT_CAINFO, options.ca_bundle.c_str());
  if (request_.fresh) Option(CURLOPT_FRESH_CONNECT, 1L);
  Option(CURLOPT_USERNAME, options.credentials.key_id.c_str());
  Option(CURLOPT_PASSWORD, options.credentials.secret.c_str());
  Option(CURLOPT_AWS_SIGV4, absl::StrCat("aws:amz:", options.region, ":s3").c_str());
  Option(CURLOPT_HEADERFUNCTION, &OnHeader);
  Option(CURLOPT_HEADERDATA, this);
  Option(CURLOPT_WRITEFUNCTION, &OnWrite);
  Option(CURLOPT_WRITEDATA, this);
  SetBody();
  if (set_ == CURLE_OK) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("libcurl: ", curl_.easy_strerror(set_)));
}

void Transfer::SetBody() {
  if (request_.method == "GET") return;
  if (request_.method == "DELETE") {
    Option(CURLOPT_CUSTOMREQUEST, "DELETE");
    return;
  }
  if (request_.method == "POST") {
    // Its body is signed, so that it lies in one piece.
    std::string body;
    for (const absl::Span<const char> piece : request_.body)
      body.append(piece.data(), piece.size());
    Option(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    Option(CURLOPT_COPYPOSTFIELDS, body.c_str());
    moved_ += body.size();
    return;
  }
  Option(CURLOPT_UPLOAD, 1L);
  Option(CURLOPT_UPLOAD_BUFFERSIZE, 512L << 10);
  Option(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(BytesOf(request_.body)));
  Option(CURLOPT_READFUNCTION, &OnRead);
  Option(CURLOPT_READDATA, this);
}

size_t Transfer::OnRead(char* to, size_t size, size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  const absl::Span<const absl::Span<const char>> body = transfer.request_.body;
  size_t done = 0;
  while (done < size * count && transfer.piece_ < body.size()) {
    const absl::Span<const char> rest = body[transfer.piece_].subspan(transfer.offset_);
    const size_t taken = std::min(rest.size(), size * count - done);
    if (taken > 0) std::memcpy(to + done, rest.data(), taken);
    done += taken;
    transfer.offset_ += taken;
    if (taken < rest.size()) break;
    ++transfer.piece_;
    transfer.offset_ = 0;
  }
  transfer.moved_ += done;
  return done;
}

size_t Transfer::OnHeader(const char* from, size_t size, size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  transfer.moved_ += size * count;
  transfer.Header(absl::string_view(from, size * count));
  return size * count;
}

void Transfer::Header(absl::string_view line) {
  // An answer may come before the real one: 100.
  if (absl::StartsWith(line, "HTTP/")) reply_.headers.clear();
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos || reply_.headers.size() >= kHeadersMax) return;
  const std::string name = absl::AsciiStrToLower(absl::StripAsciiWhitespace(line.substr(0, colon)));
  reply_.headers[name] = std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
}

size_t Transfer::OnWrite(const char* from, size_t size, size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  transfer.moved_ += size * count;
  // Another number than all of them ends the request.
  return transfer.Append(absl::string_view(from, size * count)) ? size * count : size * count + 1;
}

bool Transfer::Append(absl::string_view bytes) {
  if (reply_.status == 0) curl_.easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &reply_.status);
  if (!request_.wants_object || reply_.status != 200) {
    if (reply_.text.size() + bytes.size() > kTextBytesMax) {
      error_ = absl::UnavailableError(
          absl::StrCat(Peer(), ": an answer of more than ", kTextBytesMax, " bytes"));
      return false;
    }
    reply_.text.append(bytes.data(), bytes.size());
    return true;
  }
  if (object_ == nullptr && !MakeObject()) return false;
  if (bytes.size() > object_bytes_ - received_) {
    error_ = absl::UnavailableError(absl::StrCat(Peer(), ": more bytes than it said"));
    return false;
  }
  std::memcpy(object_.get() + received_, bytes.data(), bytes.size());
  received_ += bytes.size();
  return true;
}

bool Transfer::MakeObject() {
  curl_off_t bytes = -1;
  curl_.easy_getinfo(easy_, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &bytes);
  if (bytes < 0) {
    error_ = absl::UnavailableError(absl::StrCat(Peer(), ": an object without its length"));
    return false;
  }
  object_bytes_ = static_cast<uint64_t>(bytes);
  object_ = AlignedMemory(object_bytes_);
  if (object_ == nullptr) {
    error_ = absl::ResourceExhaustedError(absl::StrCat("no memory for ", object_bytes_, " bytes"));
  }
  return object_ != nullptr;
}

absl::Status Transfer::Finish(CURLcode result) {
  if (!error_.ok()) return error_;
  if (result != CURLE_OK) {
    const std::string why = why_[0] != '\0' ? why_ : curl_.easy_strerror(result);
    const std::string text = absl::StrCat(Peer(), ": ", why);
    switch (result) {
      case CURLE_PEER_FAILED_VERIFICATION:
      case CURLE_SSL_CACERT_BADFILE:
        return absl::FailedPreconditionError(text);
      case CURLE_OUT_OF_MEMORY:
        return absl::ResourceExhaustedError(text);
      default:
        return absl::UnavailableError(text);
    }
  }
  curl_.easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &reply_.status);
  if (!request_.wants_object || reply_.status != 200) return absl::OkStatus();
  if (object_ == nullptr && !MakeObject()) return error_;
  if (received_ != object_bytes_) {
    return absl::UnavailableError(
        absl::StrCat(Peer(), ": ", received_, " of ", object_bytes_, " bytes"));
  }
  reply_.object = Bytes(object_, object_.get(), object_bytes_);
  return absl::OkStatus();
}

std::string Transfer::Peer() const {
  absl::string_view url = request_.url;
  url.remove_prefix(std::min(url.size(), url.find("://") + 3));
  const absl::string_view host = url.substr(0, url.find('/'));
  char* address = nullptr;
  long port = 0;
  curl_.easy_getinfo(easy_, CURLINFO_PRIMARY_IP, &address);
  curl_.easy_getinfo(easy_, CURLINFO_PRIMARY_PORT, &port);
  if (address == nullptr || *address == '\0') return std::string(host);
  const bool is_six = absl::StrContains(address, ":");
  const std::string connected =
      absl::StrCat(is_six ? "[" : "", address, is_six ? "]" : "", ":", port);
  return host == connected ? connected : absl::StrCat(host, " (", connected, ")");
}

}  // namespace strata::s3
