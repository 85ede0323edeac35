#include "common/s3/bucket.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace strata::s3 {
namespace {

constexpr uint64_t kPartsMax = 10'000;
constexpr size_t kEtagBytesMax = 1024;  // 10,000 of them are kept
constexpr char kOnlyNew[] = "If-None-Match: *";

uint64_t BytesOf(Pieces pieces) {
  uint64_t bytes = 0;
  for (const absl::Span<const char> piece : pieces) bytes += piece.size();
  return bytes;
}

// Returns at most `size` bytes from `offset` on.
std::vector<absl::Span<const char>> Cut(Pieces pieces, uint64_t offset, uint64_t size) {
  std::vector<absl::Span<const char>> cut;
  for (const absl::Span<const char> piece : pieces) {
    if (offset >= piece.size()) {
      offset -= piece.size();
      continue;
    }
    const absl::Span<const char> part = piece.subspan(offset, size);
    offset = 0;
    size -= part.size();
    if (!part.empty()) cut.push_back(part);
    if (size == 0) break;
  }
  return cut;
}

std::string ChecksumHeader(Pieces pieces) {
  return absl::StrCat("x-amz-checksum-crc32: ", Crc32Of(pieces));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Bucket>> Bucket::Open(const Settings& settings, const Limits& limits,
                                                     std::stop_token stop) {
  absl::StatusOr<Curl> curl = LoadCurl();
  if (!curl.ok()) return curl.status();
  return std::unique_ptr<Bucket>(new Bucket(*curl, settings, limits, std::move(stop)));
}

Bucket::Bucket(const Curl& curl, const Settings& settings, const Limits& limits,
               std::stop_token stop)
    : requests_(curl, settings, limits, std::move(stop)) {}

absl::Status Bucket::Put(const std::string& name, Pieces pieces, bool only_new) {
  const absl::Time deadline = Deadline();
  return BytesOf(pieces) <= requests_.limits().part_bytes
             ? PutWhole(name, pieces, only_new, deadline)
             : PutInParts(name, pieces, only_new, deadline);
}

absl::Status Bucket::PutWhole(const std::string& name, Pieces pieces, bool only_new,
                              absl::Time deadline) {
  S3Request request = {
      .method = "PUT",
      .key = Key(name),
      .headers = {"Content-Type: application/octet-stream", ChecksumHeader(pieces)},
      .body = pieces,
      .not_twice = only_new,
      .deadline = deadline};
  if (only_new) request.headers.push_back(kOnlyNew);
  bool maybe_done = false;
  const absl::Status status = requests_.Send(request, &maybe_done).status();
  if (!absl::IsAlreadyExists(status) || !maybe_done) return status;
  const absl::StatusOr<bool> is_ours = HasBytes(name, pieces, deadline);
  if (!is_ours.ok()) return is_ours.status();
  return *is_ours ? absl::OkStatus() : status;
}

absl::StatusOr<std::string> Bucket::BeginUpload(const std::string& name, absl::Time deadline) {
  absl::StatusOr<S3Reply> reply = requests_.Send(
      {.method = "POST",
       .key = Key(name),
       .query = {{"uploads", ""}},
       .headers = {"Content-Type: application/octet-stream", "x-amz-checksum-algorithm: CRC32"},
       .wants_xml = true,
       .deadline = deadline});
  if (!reply.ok()) return reply.status();
  std::string upload = reply->xml.Text("UploadId");
  if (!upload.empty()) return upload;
  return absl::FailedPreconditionError(absl::StrCat("s3://", requests_.settings().bucket, "/",
                                                    Key(name), ": ", requests_.settings().endpoint,
                                                    " begins an upload without an UploadId"));
}

absl::Status Bucket::PutInParts(const std::string& name, Pieces pieces, bool only_new,
                                absl::Time deadline) {
  const absl::StatusOr<std::string> upload = BeginUpload(name, deadline);
  if (!upload.ok()) return upload.status();
  const absl::Status status = SendParts(name, *upload, pieces, only_new, deadline);
  if (!status.ok()) {
    // The result does not matter: the parts are deleted with the folder at the latest.
    const absl::Time soon = requests_.Now() + requests_.limits().stall_after;
    (void)AbortUpload(Key(name), *upload, /*once=*/true, soon);
  }
  return status;
}

absl::Status Bucket::SendParts(const std::string& name, const std::string& upload, Pieces pieces,
                               bool only_new, absl::Time deadline) {
  const uint64_t bytes = BytesOf(pieces);
  const uint64_t part_bytes =
      std::max(requests_.limits().part_bytes, (bytes + kPartsMax - 1) / kPartsMax);
  std::string parts;
  for (uint64_t offset = 0, number = 1; offset < bytes; offset += part_bytes, ++number) {
    const std::vector<absl::Span<const char>> part = Cut(pieces, offset, part_bytes);
    const std::string checksum = Crc32Of(part);
    absl::StatusOr<S3Reply> reply =
        requests_.Send({.method = "PUT",
                        .key = Key(name),
                        .query = {{"partNumber", absl::StrCat(number)}, {"uploadId", upload}},
                        .headers = {"Content-Type: application/octet-stream", ChecksumHeader(part)},
                        .body = part,
                        .deadline = deadline});
    if (!reply.ok()) return reply.status();
    const std::string& etag = reply->http.headers["etag"];
    if (etag.size() > kEtagBytesMax) {
      return absl::FailedPreconditionError(absl::StrCat(
          "s3://", requests_.settings().bucket, "/", Key(name), ": ", requests_.settings().endpoint,
          " answers with an ETag of ", etag.size(), " bytes"));
    }
    absl::StrAppend(&parts, "<Part><ChecksumCRC32>", checksum, "</ChecksumCRC32><ETag>",
                    EscapeXml(etag), "</ETag><PartNumber>", number, "</PartNumber></Part>");
  }
  return CompleteUpload(name, upload, parts, pieces, only_new, deadline);
}

absl::Status Bucket::CompleteUpload(const std::string& name, const std::string& upload,
                                    const std::string& parts, Pieces pieces, bool only_new,
                                    absl::Time deadline) {
  const std::string document =
      absl::StrCat("<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">",
                   parts, "</CompleteMultipartUpload>");
  const absl::Span<const char> body(document);
  S3Request request = {.method = "POST",
                       .key = Key(name),
                       .query = {{"uploadId", upload}},
                       .headers = {"Content-Type: application/xml"},
                       .body = {&body, 1},
                       .wants_xml = true,
                       .not_twice = true,
                       .deadline = deadline};
  if (only_new) request.headers.push_back(kOnlyNew);
  bool maybe_done = false;
  const absl::Status status = requests_.Send(request, &maybe_done).status();
  // A completed upload no longer exists, and its object does.
  const bool is_gone = absl::IsNotFound(status) || absl::IsAlreadyExists(status);
  if (!is_gone) return status;
  if (maybe_done) {
    const absl::StatusOr<bool> is_ours = HasBytes(name, pieces, deadline);
    if (!is_ours.ok()) return is_ours.status();
    if (*is_ours) return absl::OkStatus();
  }
  return absl::IsAlreadyExists(status) ? status
                                       : absl::UnavailableError(absl::StrCat(
                                             status.message(), ": the upload was ended elsewhere"));
}

absl::Status Bucket::AbortUpload(const std::string& key, const std::string& upload, bool once,
                                 absl::Time deadline) {
  const absl::Status status = requests_
                                  .Send({.method = "DELETE",
                                         .key = key,
                                         .query = {{"uploadId", upload}},
                                         .once = once,
                                         .deadline = deadline})
                                  .status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::StatusOr<bool> Bucket::HasBytes(const std::string& name, Pieces pieces, absl::Time deadline) {
  const absl::StatusOr<Bytes> content = GetBefore(name, BytesOf(pieces), deadline);
  // A larger object is a different one.
  if (absl::IsNotFound(content.status()) || absl::IsInvalidArgument(content.status())) return false;
  if (!content.ok()) return content.status();
  if (content->size() != BytesOf(pieces)) return false;
  const std::byte* at = content->data();
  for (const absl::Span<const char> piece : pieces) {
    if (!piece.empty() && std::memcmp(at, piece.data(), piece.size()) != 0) return false;
    at += piece.size();
  }
  return true;
}

absl::StatusOr<Bytes> Bucket::Get(const std::string& name, uint64_t bytes_max) {
  return GetBefore(name, bytes_max, Deadline());
}

absl::StatusOr<Bytes> Bucket::GetBefore(const std::string& name, uint64_t bytes_max,
                                        absl::Time deadline) {
  absl::StatusOr<S3Reply> reply = requests_.Send({.method = "GET",
                                                  .key = Key(name),
                                                  .headers = {"x-amz-checksum-mode: ENABLED"},
                                                  .wants_object = true,
                                                  .object_bytes_max = bytes_max,
                                                  .deadline = deadline});
  if (!reply.ok()) return reply.status();
  return std::move(reply->http.object);
}

absl::Status Bucket::Delete(const std::string& name) {
  const absl::Status status =
      requests_.Send({.method = "DELETE", .key = Key(name), .deadline = Deadline()}).status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status Bucket::WrongList(const std::string& why) const {
  const Settings& settings = requests_.settings();
  return absl::FailedPreconditionError(
      absl::StrCat(settings.Address(), ": ", settings.endpoint, " answers a list ", why));
}

absl::StatusOr<std::vector<std::string>> Bucket::List(const std::string& start) {
  const absl::Time deadline = Deadline();
  const Limits& limits = requests_.limits();
  const std::string& prefix = requests_.settings().prefix;
  std::vector<std::string> names;
  S3Request request = {.method = "GET",
                       .query = {{"list-type", "2"}, {"prefix", prefix + start}},
                       .wants_xml = true,
                       .deadline = deadline};
  for (size_t pages = 1;; ++pages) {
    absl::StatusOr<S3Reply> reply = requests_.Send(request);
    if (!reply.ok()) return reply.status();
    if (reply->xml.name != "ListBucketResult") return WrongList("that is none");
    for (const XmlElement& one : reply->xml.children) {
      if (one.name != "Contents") continue;
      const std::string key = one.Text("Key");
      if (!absl::StartsWith(key, prefix + start)) {
        return WrongList("of other keys than were asked for");
      }
      names.push_back(key.substr(prefix.size()));
    }
    if (names.size() > limits.list_names_max) {
      return WrongList(absl::StrCat("of more than ", limits.list_names_max, " names"));
    }
    if (reply->xml.Text("IsTruncated") != "true") break;
    const std::string next = reply->xml.Text("NextContinuationToken");
    if (next.empty()) return WrongList("that goes on and does not say where");
    if (next == request.query["continuation-token"]) return WrongList("that does not go on");
    if (pages == limits.list_pages_max) {
      return WrongList(absl::StrCat("of more than ", pages, " pages"));
    }
    request.query["continuation-token"] = next;
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status Bucket::AbortUploads(const std::string& start) {
  const absl::Time deadline = Deadline();
  const Limits& limits = requests_.limits();
  std::vector<std::pair<std::string, std::string>> uploads;
  S3Request request = {.method = "GET",
                       .query = {{"prefix", Key(start)}, {"uploads", ""}},
                       .wants_xml = true,
                       .deadline = deadline};
  for (size_t pages = 1;; ++pages) {
    absl::StatusOr<S3Reply> reply = requests_.Send(request);
    if (!reply.ok()) return reply.status();
    for (const XmlElement& one : reply->xml.children) {
      // Without an upload id, a request to abort would delete an object.
      const std::string key = one.Text("Key"), upload = one.Text("UploadId");
      if (one.name != "Upload" || upload.empty() || !absl::StartsWith(key, Key(start))) continue;
      uploads.emplace_back(key, upload);
    }
    const std::string key = reply->xml.Text("NextKeyMarker");
    const std::string upload = reply->xml.Text("NextUploadIdMarker");
    const bool goes_on =
        key != request.query["key-marker"] || upload != request.query["upload-id-marker"];
    if (reply->xml.Text("IsTruncated") != "true" || !goes_on) break;
    if (uploads.size() > limits.list_names_max) {
      return WrongList(absl::StrCat("of more than ", limits.list_names_max, " uploads"));
    }
    if (pages == limits.list_pages_max) {
      return WrongList(absl::StrCat("of more than ", pages, " pages"));
    }
    request.query["key-marker"] = key;
    request.query["upload-id-marker"] = upload;
  }
  for (const auto& [key, upload] : uploads) {
    absl::Status status = AbortUpload(key, upload, /*once=*/false, deadline);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace strata::s3
