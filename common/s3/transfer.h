#ifndef STRATA_COMMON_S3_TRANSFER_H_
#define STRATA_COMMON_S3_TRANSFER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/s3/curl_library.h"
#include "common/s3/http.h"

namespace strata::s3 {

// One try of a request: what libcurl is told of it, and what it calls.
//
// Threads: one.
class Transfer {
 public:
  // `request` outlives it; `easy` does, and is used for nothing else meanwhile.
  Transfer(const Curl& curl, CURL* easy, const HttpRequest& request);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // Tells libcurl all of the request. Errors: Internal: it does not take it.
  absl::Status Set(const Http::Options& options);
  // Says how it ended. Errors: as of Http::Do.
  absl::Status Finish(CURLcode result);

  // Bytes that have gone either way; it moves as long as the transfer does.
  uint64_t moved() const { return moved_; }
  // Returns "HOST:PORT", with the address where there is a connection.
  std::string Peer() const;
  HttpReply& reply() { return reply_; }

 private:
  static size_t OnRead(char* to, size_t size, size_t count, void* self);
  static size_t OnHeader(const char* from, size_t size, size_t count, void* self);
  static size_t OnWrite(const char* from, size_t size, size_t count, void* self);

  void SetBody();
  void Header(absl::string_view line);
  bool Append(absl::string_view bytes);
  // Makes room for the object that the answer has. False: it cannot.
  bool MakeObject();
  template <typename Value>
  void Option(CURLoption option, Value value);

  const Curl& curl_;
  CURL* const easy_;
  const HttpRequest& request_;
  curl_slist* headers_ = nullptr;
  char why_[CURL_ERROR_SIZE] = {};
  CURLcode set_ = CURLE_OK;  // the first error of an option

  // What has been sent of the body: pieces, and bytes of the next one.
  size_t piece_ = 0;
  size_t offset_ = 0;
  uint64_t moved_ = 0;

  HttpReply reply_;
  std::shared_ptr<std::byte> object_;
  uint64_t object_bytes_ = 0;
  uint64_t received_ = 0;
  absl::Status error_;  // of what libcurl calls
};

}  // namespace strata::s3

#endif  // STRATA_COMMON_S3_TRANSFER_H_
