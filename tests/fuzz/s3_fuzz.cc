// What S3 and its users' files say: the reader of XML refuses a document with a place in it, or
// returns what is written and read again as the same; the reader of profiles never shows what
// stands in a line that is wrong.
#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/s3/settings.h"
#include "common/s3/xml.h"
#include "tests/fuzz/check.h"

namespace {

using strata::s3::XmlElement;

std::string Written(const XmlElement& element) {
  std::string text = absl::StrCat("<", element.name, ">", strata::s3::EscapeXml(element.text));
  for (const XmlElement& child : element.children) absl::StrAppend(&text, Written(child));
  return absl::StrCat(text, "</", element.name, ">");
}

bool AreSame(const XmlElement& a, const XmlElement& b) {
  if (a.name != b.name || a.text != b.text || a.children.size() != b.children.size()) return false;
  for (size_t i = 0; i < a.children.size(); ++i) {
    if (!AreSame(a.children[i], b.children[i])) return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Copies of their own exact size: a read beyond them is a crash.
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto root = strata::s3::ParseXml(text);
  if (root.ok()) {
    const auto again = strata::s3::ParseXml(Written(*root));
    FUZZ_CHECK(again.ok());
    FUZZ_CHECK(AreSame(*root, *again));
  } else {
    FUZZ_CHECK(root.status().code() == absl::StatusCode::kInvalidArgument);
    FUZZ_CHECK(absl::StartsWith(root.status().message(), "no XML: byte "));
  }
  const auto sections = strata::s3::ParseSections(text, "fuzz");
  if (!sections.ok()) {
    FUZZ_CHECK(sections.status().code() == absl::StatusCode::kInvalidArgument);
    FUZZ_CHECK(absl::StartsWith(sections.status().message(), "fuzz: line "));
    FUZZ_CHECK(sections.status().message().size() < 80);
  }
  return 0;
}
