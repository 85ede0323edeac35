#include "common/s3/testing/memory_bucket.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/s3/requests.h"
#include "common/s3/xml.h"

namespace strata::s3 {
namespace {

constexpr char kPath[] = "/bucket/";

std::string KeyOf(const ReceivedRequest& request) {
  return request.path.substr(std::min(request.path.size(), sizeof kPath - 1));
}

std::string ChecksumOf(const std::string& content) {
  const absl::Span<const char> piece(content);
  return Crc32Of({&piece, 1});
}

std::string QuotedTag(const std::string& content) {
  return absl::StrCat("\"<", ChecksumOf(content), "&>\"");
}

// Whether all that has to be signed is named as signed, in order.
bool IsSigned(const ReceivedRequest& request) {
  const std::string authorization = request.Header("authorization");
  if (!absl::StartsWith(authorization,
                        absl::StrCat("AWS4-HMAC-SHA256 Credential=", MemoryBucket::kKeyId, "/"))) {
    return false;
  }
  const size_t begin = authorization.find("SignedHeaders=");
  if (begin == std::string::npos) return false;
  const std::string names =
      authorization.substr(begin + 14, authorization.find(',', begin) - begin - 14);
  const std::vector<std::string> is_named = absl::StrSplit(names, ';');
  const auto has = [&](const std::string& name) {
    return std::find(is_named.begin(), is_named.end(), name) != is_named.end();
  };
  for (const auto& [name, value] : request.headers) {
    if ((absl::StartsWith(name, "x-amz-") || name == "host") && !has(name)) return false;
  }
  for (const std::string& name : is_named) {
    if (!request.headers.contains(name)) return false;
  }
  return std::is_sorted(is_named.begin(), is_named.end()) &&
         std::is_sorted(request.query_names.begin(), request.query_names.end()) &&
         has("x-amz-content-sha256") &&
         request.Header("x-amz-security-token") == MemoryBucket::kToken;
}

bool IsDamaged(const ReceivedRequest& request) {
  const std::string checksum = request.Header("x-amz-checksum-crc32");
  return checksum.empty() || checksum != ChecksumOf(request.body);
}

}  // namespace

CannedReply ErrorReply(int status, const std::string& code, const std::string& message) {
  return {.status = status,
          .body = absl::StrCat("<?xml version=\"1.0\"?><Error><Code>", code, "</Code><Message>",
                               EscapeXml(message), "</Message></Error>")};
}

MemoryBucket::MemoryBucket()
    : server_([this](const ReceivedRequest& request) { return Handle(request); }) {}

Environment MemoryBucket::Variables() const {
  return {{"AWS_ACCESS_KEY_ID", kKeyId},
          {"AWS_SECRET_ACCESS_KEY", kSecret},
          {"AWS_SESSION_TOKEN", kToken},
          {"AWS_ENDPOINT_URL_S3", server_.Url()}};
}

void MemoryBucket::InterfereWith(Interfere interfere) {
  absl::MutexLock lock(&mutex_);
  interfere_ = std::move(interfere);
}

void MemoryBucket::SetPage(size_t page) {
  absl::MutexLock lock(&mutex_);
  page_ = page;
}

std::map<std::string, std::string> MemoryBucket::objects() const {
  absl::MutexLock lock(&mutex_);
  return objects_;
}

void MemoryBucket::SetObject(const std::string& key, const std::string& content) {
  absl::MutexLock lock(&mutex_);
  objects_[key] = content;
}

size_t MemoryBucket::uploads() const {
  absl::MutexLock lock(&mutex_);
  return uploads_.size();
}

std::vector<std::string> MemoryBucket::log() const {
  absl::MutexLock lock(&mutex_);
  return log_;
}

CannedReply MemoryBucket::Handle(const ReceivedRequest& request) {
  absl::MutexLock lock(&mutex_);
  log_.push_back(absl::StrCat(request.method, " ", request.target));
  std::optional<Interference> interference;
  if (interfere_) interference = interfere_(request);
  if (interference && !interference->is_carried_out) return interference->reply;
  CannedReply reply = CarryOut(request);
  return interference ? interference->reply : reply;
}

CannedReply MemoryBucket::CarryOut(const ReceivedRequest& request) {
  if (!IsSigned(request)) return ErrorReply(403, "SignatureDoesNotMatch");
  if (!absl::StartsWith(request.path, kPath)) return ErrorReply(404, "NoSuchBucket");
  if (request.method == "PUT") return request.Has("partNumber") ? PutPart(request) : Put(request);
  if (request.method == "POST") return request.Has("uploads") ? Begin(request) : Complete(request);
  if (request.method == "DELETE") return Delete(request);
  if (request.Has("list-type")) return List(request);
  return request.Has("uploads") ? ListUploads(request) : Get(request);
}

CannedReply MemoryBucket::Put(const ReceivedRequest& request) {
  if (IsDamaged(request)) return ErrorReply(400, "BadDigest");
  if (request.Header("if-none-match") == "*" && objects_.contains(KeyOf(request))) {
    return ErrorReply(412, "PreconditionFailed");
  }
  objects_[KeyOf(request)] = request.body;
  return {.headers = {absl::StrCat("ETag: ", QuotedTag(request.body))}};
}

CannedReply MemoryBucket::PutPart(const ReceivedRequest& request) {
  if (IsDamaged(request)) return ErrorReply(400, "BadDigest");
  const auto upload = uploads_.find(request.query.at("uploadId"));
  int number = 0;
  if (upload == uploads_.end() || upload->second.key != KeyOf(request)) {
    return ErrorReply(404, "NoSuchUpload");
  }
  if (!absl::SimpleAtoi(request.query.at("partNumber"), &number)) return ErrorReply(400, "Part");
  upload->second.parts[number] = request.body;
  return {.headers = {absl::StrCat("ETag: ", QuotedTag(request.body))}};
}

CannedReply MemoryBucket::Begin(const ReceivedRequest& request) {
  const std::string id = absl::StrCat("upload+", next_upload_++, "/&=");
  uploads_[id].key = KeyOf(request);
  return {.body = absl::StrCat("<InitiateMultipartUploadResult><UploadId>", EscapeXml(id),
                               "</UploadId></InitiateMultipartUploadResult>")};
}

CannedReply MemoryBucket::Complete(const ReceivedRequest& request) {
  const auto upload = uploads_.find(request.query.at("uploadId"));
  if (upload == uploads_.end()) return ErrorReply(404, "NoSuchUpload");
  if (request.Header("if-none-match") == "*" && objects_.contains(KeyOf(request))) {
    return ErrorReply(412, "PreconditionFailed");
  }
  const auto document = ParseXml(request.body);
  if (!document.ok() || document->children.size() != upload->second.parts.size()) {
    return ErrorReply(400, "MalformedXML");
  }
  std::string content;
  int number = 0;
  for (const XmlElement& part : document->children) {
    const std::string& bytes = upload->second.parts[++number];
    const bool is_last = number == static_cast<int>(document->children.size());
    if (part.Text("PartNumber") != absl::StrCat(number) || part.Text("ETag") != QuotedTag(bytes) ||
        part.Text("ChecksumCRC32") != ChecksumOf(bytes) || (bytes.empty() && !is_last)) {
      return ErrorReply(400, "InvalidPart");
    }
    content += bytes;
  }
  objects_[KeyOf(request)] = content;
  uploads_.erase(upload);
  return {.body = "<CompleteMultipartUploadResult/>"};
}

CannedReply MemoryBucket::Get(const ReceivedRequest& request) {
  const auto object = objects_.find(KeyOf(request));
  if (object == objects_.end()) return ErrorReply(404, "NoSuchKey");
  return {.headers = {absl::StrCat("x-amz-checksum-crc32: ", ChecksumOf(object->second))},
          .body = object->second};
}

CannedReply MemoryBucket::Delete(const ReceivedRequest& request) {
  // As a server does that takes no name for none.
  if (request.Has("uploadId") && !request.query.at("uploadId").empty()) {
    if (uploads_.erase(request.query.at("uploadId")) == 0) return ErrorReply(404, "NoSuchUpload");
  } else {
    objects_.erase(KeyOf(request));
  }
  return {.status = 204};
}

// Where a list goes on is after the key that the token names.
CannedReply MemoryBucket::List(const ReceivedRequest& request) {
  const std::string& prefix = request.query.at("prefix");
  const auto token = request.query.find("continuation-token");
  const std::string after = token == request.query.end() ? "" : token->second.substr(4);
  std::string contents, last;
  size_t count = 0;
  bool is_truncated = false;
  for (const auto& [key, content] : objects_) {
    if (!absl::StartsWith(key, prefix) || key <= after) continue;
    if (count == page_) {
      is_truncated = true;
      break;
    }
    ++count;
    last = key;
    absl::StrAppend(&contents, "<Contents><Key>", EscapeXml(key), "</Key><Size>", content.size(),
                    "</Size></Contents>");
  }
  const std::string next = is_truncated
                               ? absl::StrCat("<NextContinuationToken>", EscapeXml("&+= " + last),
                                              "</NextContinuationToken>")
                               : "";
  return {.body = absl::StrCat("<ListBucketResult><IsTruncated>", is_truncated ? "true" : "false",
                               "</IsTruncated>", contents, next, "</ListBucketResult>")};
}

CannedReply MemoryBucket::ListUploads(const ReceivedRequest& request) {
  const auto marker = request.query.find("upload-id-marker");
  const std::string after = marker == request.query.end() ? "" : marker->second;
  std::string listed, last_key, last;
  size_t count = 0;
  bool is_truncated = false;
  for (const auto& [id, upload] : uploads_) {
    if (!absl::StartsWith(upload.key, request.query.at("prefix")) || id <= after) continue;
    if (count == page_) {
      is_truncated = true;
      break;
    }
    ++count;
    last = id;
    last_key = upload.key;
    absl::StrAppend(&listed, "<Upload><Key>", EscapeXml(upload.key), "</Key><UploadId>",
                    EscapeXml(id), "</UploadId></Upload>");
  }
  return {.body = absl::StrCat("<ListMultipartUploadsResult><IsTruncated>",
                               is_truncated ? "true" : "false", "</IsTruncated><NextKeyMarker>",
                               EscapeXml(last_key), "</NextKeyMarker><NextUploadIdMarker>",
                               EscapeXml(last), "</NextUploadIdMarker>", listed,
                               "</ListMultipartUploadsResult>")};
}

}  // namespace strata::s3
