#include "common/testing/memory_bucket.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/require.h"
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

// Returns whether the signature covers all headers that must be signed, in order.
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
  // Like a server that treats an empty id as missing.
  if (request.Has("uploadId") && !request.query.at("uploadId").empty()) {
    if (uploads_.erase(request.query.at("uploadId")) == 0) return ErrorReply(404, "NoSuchUpload");
  } else {
    objects_.erase(KeyOf(request));
  }
  return {.status = 204};
}

// A list continues after the key in the token.
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

namespace {

std::string Decode(absl::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    uint32_t code = 0;
    if (text[i] == '%' && absl::SimpleHexAtoi(text.substr(i + 1, 2), &code)) {
      decoded.push_back(static_cast<char>(code));
      i += 2;
    } else {
      decoded.push_back(text[i]);
    }
  }
  return decoded;
}

// Reads more into the buffer. Returns false at the end.
bool ReadMore(int fd, std::string* buffer) {
  char block[65536];
  const ssize_t got = recv(fd, block, sizeof block, 0);
  if (got > 0) buffer->append(block, static_cast<size_t>(got));
  return got > 0;
}

bool SendAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

// Makes closing a connection send a reset.
void ResetAtClose(int fd) {
  const linger at_once = {.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

void ParseTarget(ReceivedRequest* request) {
  const size_t mark = request->target.find('?');
  request->path = Decode(absl::string_view(request->target).substr(0, mark));
  if (mark == std::string::npos) return;
  for (absl::string_view pair : absl::StrSplit(request->target.substr(mark + 1), '&')) {
    const size_t equals = std::min(pair.find('='), pair.size());
    const std::string name = Decode(pair.substr(0, equals));
    request->query_names.push_back(name);
    request->query[name] = equals < pair.size() ? Decode(pair.substr(equals + 1)) : "";
  }
}

}  // namespace

HttpServer::HttpServer(Handler handler)
    : handler_(std::move(handler)), listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  STRATA_REQUIRE(bind(listener_.get(), plain, size) == 0);
  STRATA_REQUIRE(listen(listener_.get(), 64) == 0);
  STRATA_REQUIRE(getsockname(listener_.get(), plain, &size) == 0);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { Accept(); });
}

HttpServer::~HttpServer() {
  shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
  std::vector<std::thread> threads;
  {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
    for (const int fd : open_) shutdown(fd, SHUT_RDWR);
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

void HttpServer::StallBodiesOf(const std::string& method) {
  absl::MutexLock lock(&mutex_);
  stalled_method_ = method;
}

void HttpServer::ReadSlowly(absl::Duration pause) {
  absl::MutexLock lock(&mutex_);
  pause_ = pause;
}

std::string HttpServer::Url() const { return absl::StrCat("http://127.0.0.1:", port_); }

int HttpServer::requests() const {
  absl::MutexLock lock(&mutex_);
  return requests_;
}

int HttpServer::connections() const {
  absl::MutexLock lock(&mutex_);
  return connections_;
}

void HttpServer::Accept() {
  while (true) {
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd.valid()) return;
    absl::MutexLock lock(&mutex_);
    ++connections_;
    open_.push_back(fd.get());
    threads_.emplace_back([this, own = std::make_shared<UniqueFd>(std::move(fd))] {
      Serve(own->get());
      absl::MutexLock closing(&mutex_);
      open_.remove(own->get());
      own->Reset();
    });
  }
}

void HttpServer::Serve(int fd) {
  std::string buffer;
  while (true) {
    ReceivedRequest request;
    if (!ReadRequest(fd, &buffer, &request)) return;
    if (!Answer(fd, handler_(request))) return;
  }
}

bool HttpServer::ReadRequest(int fd, std::string* buffer, ReceivedRequest* request) {
  size_t end = 0;
  while ((end = buffer->find("\r\n\r\n")) == std::string::npos) {
    constexpr char kBeginOfTls = 0x16;
    if (!ReadMore(fd, buffer) || (*buffer)[0] == kBeginOfTls) return false;
  }
  std::vector<std::string> lines = absl::StrSplit(buffer->substr(0, end), "\r\n");
  buffer->erase(0, end + 4);
  const std::vector<std::string> first = absl::StrSplit(lines[0], ' ');
  STRATA_REQUIRE(first.size() == 3);
  request->method = first[0];
  request->target = first[1];
  ParseTarget(request);
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::pair<std::string, std::string> header =
        absl::StrSplit(lines[i], absl::MaxSplits(':', 1));
    request->headers[absl::AsciiStrToLower(header.first)] =
        std::string(absl::StripAsciiWhitespace(header.second));
  }
  bool stalls = false;
  absl::Duration pause;
  {
    absl::MutexLock lock(&mutex_);
    ++requests_;
    stalls = stalled_method_ == request->method;
    pause = pause_;
  }
  if (stalls) {
    WaitForTheEnd(fd);
    return false;
  }
  if (request->Header("expect") == "100-continue") SendAll(fd, "HTTP/1.1 100 Continue\r\n\r\n");
  size_t length = 0;
  (void)absl::SimpleAtoi(request->Header("content-length"), &length);
  while (buffer->size() < length) {
    absl::SleepFor(pause);
    if (!ReadMore(fd, buffer)) return false;
  }
  request->body = buffer->substr(0, length);
  buffer->erase(0, length);
  return true;
}

void HttpServer::SendWithoutEnd(int fd, const CannedReply& reply) {
  const std::string status = absl::StrCat("HTTP/1.1 ", reply.status, " status\r\n");
  std::string head = status + "Transfer-Encoding: chunked\r\n\r\n", more;
  if (reply.fault == Fault::kEndlessHeaders) {
    head = status;
    for (int i = 0; i < 100; ++i) absl::StrAppend(&more, "X-More: ", std::string(900, 'x'), "\r\n");
  } else if (reply.fault == Fault::kTenGigabytes) {
    head = status + "Content-Length: 10737418240\r\n\r\n" + reply.body;
  } else if (reply.fault == Fault::kDrip) {
    head = status + "Content-Length: 1000000\r\n\r\n";
    more = "x";
  } else {
    more = absl::StrCat(absl::Hex(reply.body.size()), "\r\n", reply.body, "\r\n");
  }
  bool goes_on = SendAll(fd, head);
  if (reply.fault == Fault::kTenGigabytes) WaitForTheEnd(fd);
  while (goes_on && !more.empty()) {
    if (reply.fault == Fault::kDrip) absl::SleepFor(absl::Milliseconds(50));
    goes_on = SendAll(fd, more);
  }
}

bool HttpServer::Answer(int fd, const CannedReply& reply) {
  if (reply.fault == Fault::kReset) {
    ResetAtClose(fd);
    return false;
  }
  if (reply.fault == Fault::kStall) {
    WaitForTheEnd(fd);
    return false;
  }
  if (reply.fault >= Fault::kEndless) {
    SendWithoutEnd(fd, reply);
    return false;
  }
  const bool is_chunked = reply.fault == Fault::kChunked;
  std::string head = absl::StrCat("HTTP/1.1 ", reply.status, " status\r\n");
  for (const std::string& header : reply.headers) absl::StrAppend(&head, header, "\r\n");
  if (is_chunked) {
    absl::StrAppend(&head, "Transfer-Encoding: chunked\r\n\r\n");
    return SendAll(
        fd, absl::StrCat(head, absl::Hex(reply.body.size()), "\r\n", reply.body, "\r\n0\r\n\r\n"));
  }
  if (reply.status != 204) absl::StrAppend(&head, "Content-Length: ", reply.body.size(), "\r\n");
  absl::StrAppend(&head, "\r\n");
  if (reply.fault == Fault::kNone) return SendAll(fd, head + reply.body);
  SendAll(fd, head + reply.body.substr(0, reply.body.size() / 2));
  if (reply.fault == Fault::kStallInBody) WaitForTheEnd(fd);
  if (reply.fault == Fault::kResetInBody) {
    // Sent data arrives before the reset.
    pollfd readable = {fd, POLLIN, 0};
    poll(&readable, 1, 50);
    ResetAtClose(fd);
  }
  return false;
}

void HttpServer::WaitForTheEnd(int fd) {
  pollfd gone = {fd, POLLRDHUP, 0};
  poll(&gone, 1, -1);
}

}  // namespace strata::s3
