#include "common/s3/http.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/buffer_pool.h"

namespace strata::s3 {
namespace {

// A page of a list has 1,000 names of at most 1,024 bytes, all of which may be escaped.
constexpr size_t kTextBytesMax = 16 << 20;
constexpr size_t kHeadersMax = 200;
constexpr size_t kHeaderBytesMax = 256 << 10;  // of all answers to one request

uint64_t TransferBytesOf(absl::Span<const absl::Span<const char>> pieces) {
  uint64_t bytes = 0;
  for (const absl::Span<const char> piece : pieces) bytes += piece.size();
  return bytes;
}

}  // namespace

// One try of a request: libcurl's options, and its callbacks.
//
// Threads: one.
class Transfer {
 public:
  // `request` and `easy` outlive it; `easy` is used for nothing else meanwhile.
  Transfer(const Curl& curl, CURL* easy, const HttpRequest& request);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // Sets all options of the request. Errors: Internal: libcurl refuses one.
  absl::Status Set(const Http::Options& options);
  // Returns the outcome. Errors: as of Http::Do.
  absl::Status Finish(CURLcode result);

  // Bytes transferred in both directions; it increases as long as the transfer makes progress.
  uint64_t moved() const { return moved_; }
  // Returns "HOST:PORT", with the address if there is a connection.
  std::string Peer() const;
  HttpReply& reply() { return reply_; }

 private:
  static size_t OnRead(char* to, size_t size, size_t count, void* self);
  static size_t OnHeader(const char* from, size_t size, size_t count, void* self);
  static size_t OnWrite(const char* from, size_t size, size_t count, void* self);

  void SetBody();
  bool Header(absl::string_view line);
  bool Append(absl::string_view bytes);
  // Allocates memory for the object in the answer. Returns false if it cannot.
  bool MakeObject();
  template <typename Value>
  void Option(CURLoption option, Value value);

  const Curl& curl_;
  CURL* const easy_;
  const HttpRequest& request_;
  curl_slist* headers_ = nullptr;
  char why_[CURL_ERROR_SIZE] = {};
  CURLcode set_ = CURLE_OK;  // the first error of an option

  // Progress of the body: pieces sent, and bytes of the next one.
  size_t piece_ = 0;
  size_t offset_ = 0;
  uint64_t moved_ = 0;

  HttpReply reply_;
  size_t header_bytes_ = 0;
  std::shared_ptr<std::byte> object_;
  uint64_t object_bytes_ = 0;
  uint64_t received_ = 0;
  absl::Status error_;  // from callbacks
};

Transfer::Transfer(const Curl& curl, CURL* easy, const HttpRequest& request)
    : curl_(curl), easy_(easy), request_(request) {}

Transfer::~Transfer() {
  curl_.easy_reset(easy_);  // it refers to members that are destroyed here
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
  // A running name resolution does not delay the end of a request.
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
    // Its body is signed, so it must be contiguous.
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
  Option(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(TransferBytesOf(request_.body)));
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
  // Any other number ends the request.
  return transfer.Header(absl::string_view(from, size * count)) ? size * count : size * count + 1;
}

bool Transfer::Header(absl::string_view line) {
  header_bytes_ += line.size();
  if (header_bytes_ > kHeaderBytesMax) {
    error_ = absl::UnavailableError(
        absl::StrCat(Peer(), ": headers of more than ", kHeaderBytesMax, " bytes"));
    return false;
  }
  // An interim answer may come first: 100.
  if (absl::StartsWith(line, "HTTP/")) reply_.headers.clear();
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos || reply_.headers.size() >= kHeadersMax) return true;
  const std::string name = absl::AsciiStrToLower(absl::StripAsciiWhitespace(line.substr(0, colon)));
  reply_.headers[name] = std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  return true;
}

size_t Transfer::OnWrite(const char* from, size_t size, size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  transfer.moved_ += size * count;
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
  if (object_bytes_ > request_.object_bytes_max) {
    error_ = absl::InvalidArgumentError(
        absl::StrCat("larger than ", request_.object_bytes_max, " bytes"));
    return false;
  }
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

Http::Http(const Curl& curl, Options options) : curl_(curl), options_(std::move(options)) {}

Http::~Http() {
  absl::MutexLock lock(&mutex_);
  for (const Line& line : idle_) {
    curl_.easy_cleanup(line.easy);
    curl_.multi_cleanup(line.multi);
  }
}

absl::StatusOr<Http::Line> Http::TakeLine() {
  {
    absl::MutexLock lock(&mutex_);
    if (!idle_.empty()) {
      const Line line = idle_.back();
      idle_.pop_back();
      return line;
    }
  }
  const Line line = {curl_.easy_init(), curl_.multi_init()};
  if (line.easy != nullptr && line.multi != nullptr) return line;
  if (line.easy != nullptr) curl_.easy_cleanup(line.easy);
  if (line.multi != nullptr) curl_.multi_cleanup(line.multi);
  return absl::ResourceExhaustedError("no memory for a request");
}

void Http::GiveLineBack(const Line& line) {
  absl::MutexLock lock(&mutex_);
  idle_.push_back(line);
}

absl::StatusOr<HttpReply> Http::Do(const HttpRequest& request, absl::Time deadline) {
  absl::StatusOr<Line> line = TakeLine();
  if (!line.ok()) return line.status();
  const absl::Cleanup give_back = [&] { GiveLineBack(*line); };
  Transfer transfer(curl_, line->easy, request);
  if (absl::Status status = transfer.Set(options_); !status.ok()) return status;
  if (curl_.multi_add_handle(line->multi, line->easy) != CURLM_OK) {
    return absl::InternalError("libcurl: no request is taken");
  }
  const absl::Status status = Run(*line, transfer, deadline);
  curl_.multi_remove_handle(line->multi, line->easy);
  if (!status.ok()) return status;
  return std::move(transfer.reply());
}

absl::Status Http::Run(const Line& line, Transfer& transfer, absl::Time deadline) {
  const std::stop_callback wake(options_.stop, [&] { curl_.multi_wakeup(line.multi); });
  uint64_t moved = transfer.moved();
  absl::Time moved_at = Now();
  while (true) {
    int running = 0, left = 0;
    if (const CURLMcode code = curl_.multi_perform(line.multi, &running); code != CURLM_OK) {
      return absl::InternalError(absl::StrCat("libcurl: error ", code, " of a transfer"));
    }
    while (const CURLMsg* const message = curl_.multi_info_read(line.multi, &left)) {
      if (message->msg == CURLMSG_DONE) return transfer.Finish(message->data.result);
    }
    if (options_.stop.stop_requested()) return absl::CancelledError("stopped");
    const absl::Time now = Now();
    if (transfer.moved() != moved) {
      moved = transfer.moved();
      moved_at = now;
    }
    if (now - moved_at >= options_.stall_after) {
      return absl::UnavailableError(absl::StrCat(transfer.Peer(), ": no byte for ",
                                                 absl::FormatDuration(options_.stall_after)));
    }
    if (now >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat(transfer.Peer(), ": not done in time"));
    }
    const absl::Duration wait = std::min(moved_at + options_.stall_after, deadline) - now;
    const int64_t wait_ms = std::clamp<int64_t>(absl::ToInt64Milliseconds(wait) + 1, 1, 60'000);
    if (curl_.multi_poll(line.multi, nullptr, 0, static_cast<int>(wait_ms), nullptr) != CURLM_OK) {
      return absl::InternalError("libcurl: a transfer that cannot be waited for");
    }
  }
}

namespace {

absl::Status Unusable(const std::string& why) {
  return absl::FailedPreconditionError(
      absl::StrCat("S3 needs ", kCurlLibrary, " (apt-get install libcurl4): ", why));
}

// Looks up functions, and remembers the first missing one.
struct Lookup {
  template <typename Function>
  void Find(const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(handle, name));
    if (*function == nullptr && missing == nullptr) missing = name;
  }

  void* const handle;
  const char* missing = nullptr;
};

}  // namespace

absl::StatusOr<Curl> LoadCurl(const std::string& file) {
  constexpr unsigned kVersionMin = 0x075800;  // 7.88.0
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return Unusable(dlerror());
  Lookup lookup = {handle};
  Curl curl;
  decltype(&::curl_global_init) global_init = nullptr;
  decltype(&::curl_version_info) version_info = nullptr;
  lookup.Find("curl_global_init", &global_init);
  lookup.Find("curl_version_info", &version_info);
  lookup.Find("curl_easy_init", &curl.easy_init);
  lookup.Find("curl_easy_cleanup", &curl.easy_cleanup);
  lookup.Find("curl_easy_reset", &curl.easy_reset);
  lookup.Find("curl_easy_setopt", &curl.easy_setopt);
  lookup.Find("curl_easy_getinfo", &curl.easy_getinfo);
  lookup.Find("curl_easy_strerror", &curl.easy_strerror);
  lookup.Find("curl_multi_init", &curl.multi_init);
  lookup.Find("curl_multi_cleanup", &curl.multi_cleanup);
  lookup.Find("curl_multi_add_handle", &curl.multi_add_handle);
  lookup.Find("curl_multi_remove_handle", &curl.multi_remove_handle);
  lookup.Find("curl_multi_perform", &curl.multi_perform);
  lookup.Find("curl_multi_poll", &curl.multi_poll);
  lookup.Find("curl_multi_wakeup", &curl.multi_wakeup);
  lookup.Find("curl_multi_info_read", &curl.multi_info_read);
  lookup.Find("curl_slist_append", &curl.slist_append);
  lookup.Find("curl_slist_free_all", &curl.slist_free_all);
  if (lookup.missing != nullptr) return Unusable(absl::StrCat("no ", lookup.missing, " in it"));
  const curl_version_info_data* const version = version_info(CURLVERSION_NOW);
  if (version->version_num < kVersionMin) {
    return Unusable(absl::StrCat("at least 7.88, this one is ", version->version));
  }
  // Reference-counted by the library, and thread-safe since 7.84.
  if (global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return Unusable("it does not start");
  return curl;
}

}  // namespace strata::s3
