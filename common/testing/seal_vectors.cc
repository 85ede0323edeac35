// Prints the vectors that seal_vectors_test.py compares with another implementation.
//
// usage: seal_vectors make COUNT    prints COUNT lines of each kind, of random secrets
//        seal_vectors check         reads such lines, opens what they seal, and prints how many
//
// A line is a kind and fields in hexadecimal digits, "-" for none; integers are decimal:
//   payload PROTECTION SECRET SALT NUMBER PLAIN SEALED TAG
//   header KEY PLACE HEADER NUMBER PAYLOAD_TAG ENCODED_SEAL    in the order of their places
//   connection JOB_SECRET ATTEMPT SECRET IDENTITY              of job 7
#include <cstdint>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/seal/handshake.h"
#include "common/seal/seal.h"
#include "common/testing/hex.h"

namespace strata::seal {
namespace {

constexpr uint32_t kJob = 7;
constexpr absl::string_view kListener = "tcp://10.0.0.1:7100";

std::string Field(absl::Span<const std::byte> bytes) { return bytes.empty() ? "-" : ToHex(bytes); }
std::vector<std::byte> Value(const std::string& field) {
  return field == "-" ? std::vector<std::byte>() : FromHex(field);
}

// Random bytes, as many as the number says.
std::vector<std::byte> Bytes(size_t count) {
  std::vector<std::byte> bytes;
  while (bytes.size() < count) {
    const Secret more = NewSecret();
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
  bytes.resize(count);
  return bytes;
}

void MakePayloads(size_t count, Protection protection) {
  const Secret secret = NewSecret();
  const Salt salt = NewSalt();
  PayloadSealer sealer(secret, salt, protection, {.payloads_per_key = 3});
  for (size_t i = 0; i < count; ++i) {
    const std::vector<std::byte> plain = Bytes(i * i % 997);
    std::vector<std::byte> sealed = plain;
    const PayloadSeal seal = sealer.Seal(plain, sealed.data());
    std::cout << absl::StrJoin({std::string("payload"), absl::StrCat(static_cast<int>(protection)),
                                Field(secret), Field(salt), absl::StrCat(seal.number), Field(plain),
                                Field(sealed), Field(seal.tag)},
                               " ")
              << "\n";
  }
}

void MakeHeaders(size_t count) {
  const Key key = NewSecret();
  HeaderSealer sealer(key);
  for (size_t i = 0; i < count; ++i) {
    const std::vector<std::byte> header = Bytes(i);
    const std::vector<std::byte> random = Bytes(kTagBytes);
    PayloadSeal seal{i * 0x123456789abcdef + 1, ArrayFromHex<Tag>(ToHex(random))};
    const Tag tag = sealer.Next(header, seal);
    sealer.Took();
    std::cout << absl::StrJoin(
                     {std::string("header"), Field(key), absl::StrCat(i + 1), Field(header),
                      absl::StrCat(seal.number), Field(seal.tag), Field(EncodeSeal(seal, tag))},
                     " ")
              << "\n";
  }
}

void MakeConnections(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const Secret job_secret = NewSecret();
    const uint32_t attempt = static_cast<uint32_t>(i * 0x1234567);
    std::cout << absl::StrJoin({std::string("connection"), Field(job_secret), absl::StrCat(attempt),
                                Field(ConnectionSecret(job_secret, attempt, kListener)),
                                Field(AsBytes(IdentityOf(kJob, attempt)))},
                               " ")
              << "\n";
  }
}

bool CheckPayload(const std::vector<std::string>& fields) {
  if (fields.size() != 8) return false;
  const Protection protection = fields[1] == "1" ? Protection::kSign : Protection::kEncrypt;
  PayloadOpener opener(ArrayFromHex<Secret>(fields[2]), ArrayFromHex<Salt>(fields[3]), protection);
  PayloadSeal seal{0, ArrayFromHex<Tag>(fields[7])};
  const std::vector<std::byte> sealed = Value(fields[6]);
  std::vector<std::byte> opened = sealed;
  return absl::SimpleAtoi(fields[4], &seal.number) &&
         opener.Open(sealed, seal, opened.data()).ok() && opened == Value(fields[5]);
}

bool CheckHeader(const std::vector<std::string>& fields,
                 std::map<std::string, HeaderOpener>* openers) {
  if (fields.size() != 7) return false;
  HeaderOpener& opener =
      openers->try_emplace(fields[1], ArrayFromHex<Key>(fields[1])).first->second;
  PayloadSeal seal;
  Tag tag;
  return DecodeSeal(Value(fields[6]), &seal, &tag).ok() && absl::StrCat(seal.number) == fields[4] &&
         Field(seal.tag) == fields[5] && opener.Check(Value(fields[3]), seal, tag).ok();
}

bool CheckConnection(const std::vector<std::string>& fields) {
  uint32_t attempt = 0;
  return fields.size() == 5 && absl::SimpleAtoi(fields[2], &attempt) &&
         Field(ConnectionSecret(ArrayFromHex<Secret>(fields[1]), attempt, kListener)) ==
             fields[3] &&
         Field(AsBytes(IdentityOf(kJob, attempt))) == fields[4];
}

int Make(size_t count) {
  MakePayloads(count, Protection::kSign);
  MakePayloads(count, Protection::kEncrypt);
  MakeHeaders(count);
  MakeConnections(count);
  return 0;
}

int Check() {
  std::map<std::string, HeaderOpener> openers;
  size_t right = 0;
  for (std::string line; std::getline(std::cin, line); ++right) {
    const std::vector<std::string> fields = absl::StrSplit(line, ' ');
    const bool is_right = fields[0] == "payload"  ? CheckPayload(fields)
                          : fields[0] == "header" ? CheckHeader(fields, &openers)
                                                  : CheckConnection(fields);
    if (is_right) continue;
    std::cerr << "line " << right + 1 << " is wrong: " << line << "\n";
    return 1;
  }
  std::cout << right << "\n";
  return 0;
}

}  // namespace
}  // namespace strata::seal

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  size_t count = 0;
  if (arguments == std::vector<std::string>{"check"}) return strata::seal::Check();
  if (arguments.size() == 2 && arguments[0] == "make" && absl::SimpleAtoi(arguments[1], &count)) {
    return strata::seal::Make(count);
  }
  std::cerr << "usage: seal_vectors make COUNT | check\n";
  return 2;
}
