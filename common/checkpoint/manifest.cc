#include "common/checkpoint/manifest.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/checkpoint/store.h"
#include "common/image/safetensors.h"
#include "common/os/limits.h"
#include "common/require.h"
#include "xxhash.h"

namespace strata {
namespace {

// Written in the order of the fields; read into a map, so that many fields do not take quadratic
// time.
using OrderedJson = nlohmann::ordered_json;
using Json = nlohmann::json;

constexpr size_t kChecksumDigits = 16;
constexpr size_t kTrailerBytes = kChecksumDigits + 2;  // between line ends

std::string Digits(uint64_t checksum) { return absl::StrFormat("%016x", checksum); }

absl::Status Wrong(const std::string& path, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": not a checkpoint's manifest: ", why));
}

bool ReadDigits(const std::string& text, uint64_t* checksum) {
  return text.size() == kChecksumDigits && absl::SimpleHexAtoi(text, checksum) &&
         Digits(*checksum) == text;
}

// Reads one field into `out`. Returns false if it is missing, or of another type.
bool ReadText(const Json& object, const char* name, std::string* out) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return false;
  *out = found->get<std::string>();
  return true;
}
bool ReadCount(const Json& object, const char* name, uint64_t* out) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_unsigned()) return false;
  *out = found->get<uint64_t>();
  return true;
}

// Returns false if they are there, and are not a list of buckets.
bool ReadBuckets(const Json& object, std::vector<uint32_t>* buckets) {
  const auto found = object.find("buckets");
  if (found == object.end()) return true;
  if (!found->is_array() || found->size() > kBucketsMax) return false;
  for (const Json& one : *found) {
    if (!one.is_number_unsigned() || one.get<uint64_t>() >= kBucketsMax) return false;
    buckets->push_back(one.get<uint32_t>());
  }
  return true;
}

// Returns what is wrong; empty: nothing.
std::string ReadObjects(const Json& json, std::vector<ObjectFacts>* objects) {
  const auto list = json.find("objects");
  if (list == json.end() || !list->is_array()) return "objects is missing";
  std::set<std::string> names;
  for (const Json& item : *list) {
    ObjectFacts facts;
    std::string checksum;
    if (!item.is_object() || !ReadText(item, "name", &facts.name) ||
        !ReadCount(item, "bytes", &facts.bytes) || !ReadText(item, "xxh3", &checksum) ||
        !ReadDigits(checksum, &facts.checksum)) {
      return "an object lacks name, bytes or xxh3";
    }
    if (!ReadBuckets(item, &facts.buckets)) {
      return absl::StrCat("object ", ShownName(facts.name), " has buckets that are none");
    }
    if (!CheckObjectName(facts.name).ok()) return absl::StrCat("object ", ShownName(facts.name));
    if (!names.insert(facts.name).second) return absl::StrCat(facts.name, " is there twice");
    objects->push_back(std::move(facts));
  }
  return "";
}

}  // namespace

ObjectSum::ObjectSum()
    : state_(XXH3_createState(), [](XXH3_state_s* state) { return int{XXH3_freeState(state)}; }) {
  STRATA_REQUIRE(state_ != nullptr);
  XXH3_64bits_reset(state_.get());
}

void ObjectSum::Add(absl::Span<const char> bytes) {
  XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
}

uint64_t ObjectSum::Value() const { return XXH3_64bits_digest(state_.get()); }

ObjectFacts FactsOf(const std::string& name, absl::Span<const absl::Span<const char>> pieces) {
  ObjectSum sum;
  ObjectFacts facts = {.name = name};
  for (const absl::Span<const char> piece : pieces) {
    sum.Add(piece);
    facts.bytes += piece.size();
  }
  facts.checksum = sum.Value();
  return facts;
}

std::string SerializeManifest(const Manifest& manifest) {
  OrderedJson json = {
      {"format", kManifestFormat},
      {"job", manifest.job},
      {"name", manifest.job_name},
      {"clock", manifest.clock},
      {"written", absl::FormatTime(absl::RFC3339_sec, manifest.written, absl::UTCTimeZone())},
      {"record", absl::Base64Escape(manifest.record)},
      {"objects", OrderedJson::array()}};
  for (const ObjectFacts& object : manifest.objects) {
    json["objects"].push_back(
        {{"name", object.name}, {"bytes", object.bytes}, {"xxh3", Digits(object.checksum)}});
    if (!object.buckets.empty()) json["objects"].back()["buckets"] = object.buckets;
  }
  // Names of jobs may hold any bytes.
  std::string text = json.dump(1, ' ', false, OrderedJson::error_handler_t::replace);
  const uint64_t checksum = XXH3_64bits(text.data(), text.size());
  return absl::StrCat(text, "\n", Digits(checksum), "\n");
}

absl::StatusOr<Manifest> ParseManifest(absl::Span<const char> content, const std::string& path) {
  if (content.size() < kTrailerBytes) return Wrong(path, "it is cut off");
  const std::string text(content.data(), content.size() - kTrailerBytes);
  const std::string trailer(content.data() + text.size(), kTrailerBytes);
  const std::string expected =
      absl::StrCat("\n", Digits(XXH3_64bits(text.data(), text.size())), "\n");
  if (trailer != expected) return Wrong(path, "its checksum is another one");
  if (!IsWithinJsonBounds(text)) return Wrong(path, "its JSON is too large or nested too deep");
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Wrong(path, "it is not a JSON object");
  Manifest manifest;
  std::string format, written, record, error;
  if (!ReadText(json, "format", &format)) return Wrong(path, "format is missing");
  if (format != kManifestFormat) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": format is ", ShownName(format),
                                                      ", this version reads ", kManifestFormat));
  }
  uint64_t job = 0;
  if (!ReadCount(json, "job", &job) || job > UINT32_MAX) return Wrong(path, "job is missing");
  manifest.job = static_cast<uint32_t>(job);
  if (!ReadText(json, "name", &manifest.job_name)) return Wrong(path, "name is missing");
  if (!ReadCount(json, "clock", &manifest.clock)) return Wrong(path, "clock is missing");
  if (!ReadText(json, "written", &written) ||
      !absl::ParseTime(absl::RFC3339_sec, written, &manifest.written, &error)) {
    return Wrong(path, "written is no time");
  }
  if (!ReadText(json, "record", &record) || !absl::Base64Unescape(record, &manifest.record)) {
    return Wrong(path, "record is missing");
  }
  if (const std::string why = ReadObjects(json, &manifest.objects); !why.empty()) {
    return Wrong(path, why);
  }
  return manifest;
}

const char* WordFor(PartKind kind) {
  switch (kind) {
    case PartKind::kShard:
      return "shard";
    case PartKind::kNode:
      return "node";
    case PartKind::kRank:
      return "rank";
    case PartKind::kRows:
      return "rows";
  }
  return "";
}

std::string ToText(const PartName& part, uint32_t job, uint32_t attempt) {
  const std::string piece = part.kind == PartKind::kRows ? absl::StrCat(".", part.piece) : "";
  return absl::StrFormat("%s-%d%s-%d.%d", WordFor(part.kind), part.number, piece, job, attempt);
}

std::optional<PartName> ParsePartName(const std::string& object) {
  const std::vector<std::string> words = absl::StrSplit(object.substr(object.rfind('/') + 1), '-');
  PartName part;
  if (words.size() < 2 || words.size() > 3) return std::nullopt;
  if (words[0] == WordFor(PartKind::kRows)) {
    const std::pair<std::string, std::string> numbers = absl::StrSplit(words[1], '.');
    part.kind = PartKind::kRows;
    const bool is_one = absl::SimpleAtoi(numbers.first, &part.number) &&
                        absl::SimpleAtoi(numbers.second, &part.piece);
    return is_one ? std::optional(part) : std::nullopt;
  }
  if (!absl::SimpleAtoi(words[1], &part.number)) return std::nullopt;
  for (const PartKind kind : {PartKind::kShard, PartKind::kNode, PartKind::kRank}) {
    part.kind = kind;
    if (words[0] == WordFor(kind)) return part;
  }
  return std::nullopt;
}

}  // namespace strata
