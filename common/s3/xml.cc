#include "common/s3/xml.h"

#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace strata::s3 {
namespace {

constexpr int kDepthMax = 32;
// An element takes 88 bytes of memory and as little as 4 of a document. A page of a list has 1,000
// names with at most 20 elements each.
constexpr size_t kElementsMax = 200'000;

// Returns a name in the form for errors.
std::string Shown(absl::string_view name) {
  constexpr size_t kShownMax = 64;
  const bool is_short = name.size() <= kShownMax;
  return absl::StrCat(absl::CHexEscape(name.substr(0, kShownMax)), is_short ? "" : "...");
}

bool IsNameByte(char c) {
  return absl::ascii_isalnum(c) || c == '_' || c == ':' || c == '-' || c == '.' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool IsFirstNameByte(char c) {
  return IsNameByte(c) && !absl::ascii_isdigit(c) && c != '-' && c != '.';
}

// Appends a character as UTF-8. Returns false if it is not one.
bool AppendCharacter(uint32_t code, std::string* out) {
  if (code == 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
  if (code < 0x80) {
    out->push_back(static_cast<char>(code));
    return true;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  out->push_back(static_cast<char>((0xff00 >> (more + 1)) | (code >> (6 * more))));
  for (int i = more - 1; i >= 0; --i) {
    out->push_back(static_cast<char>(0x80 | ((code >> (6 * i)) & 0x3f)));
  }
  return true;
}

// Appends the character of a reference, given without its & and semicolon. Returns false if it is
// not one.
bool AppendReference(absl::string_view name, std::string* out) {
  constexpr std::pair<absl::string_view, char> kEntities[] = {
      {"lt", '<'}, {"gt", '>'}, {"amp", '&'}, {"quot", '"'}, {"apos", '\''}};
  for (const auto& [entity, character] : kEntities) {
    if (name != entity) continue;
    out->push_back(character);
    return true;
  }
  if (!absl::ConsumePrefix(&name, "#")) return false;
  const bool is_hex = absl::ConsumePrefix(&name, "x");
  // Digits only: SimpleAtoi also accepts signs and spaces.
  for (const char c : name) {
    if (!(is_hex ? absl::ascii_isxdigit(c) : absl::ascii_isdigit(c))) return false;
  }
  uint32_t code = 0;
  const bool is_number = is_hex ? absl::SimpleHexAtoi(name, &code) : absl::SimpleAtoi(name, &code);
  return is_number && AppendCharacter(code, out);
}

class Parser {
 public:
  explicit Parser(absl::string_view document) : document_(document), rest_(document) {}

  absl::StatusOr<XmlElement> Document() {
    absl::ConsumePrefix(&rest_, "\xef\xbb\xbf");
    XmlElement root;
    if (!SkipMisc() || !Element(&root, 1) || !SkipMisc()) return Error();
    if (!rest_.empty()) {
      Fail("something after the document's end");
      return Error();
    }
    return root;
  }

 private:
  bool Fail(absl::string_view why) {
    if (why_.empty()) why_ = absl::StrCat("byte ", document_.size() - rest_.size(), ": ", why);
    return false;
  }
  absl::Status Error() const { return absl::InvalidArgumentError(absl::StrCat("no XML: ", why_)); }

  void SkipSpace() { rest_ = absl::StripLeadingAsciiWhitespace(rest_); }

  // Consumes everything up to and including a mark.
  bool Until(absl::string_view mark, absl::string_view* taken) {
    const size_t end = rest_.find(mark);
    if (end == absl::string_view::npos) return Fail(absl::StrCat("no ", mark, " follows"));
    *taken = rest_.substr(0, end);
    rest_.remove_prefix(end + mark.size());
    return true;
  }

  // Consumes a comment or an instruction, if one begins here.
  std::optional<bool> Ignored() {
    absl::string_view ignored;
    if (absl::ConsumePrefix(&rest_, "<!--")) return Until("-->", &ignored);
    if (absl::ConsumePrefix(&rest_, "<?")) return Until("?>", &ignored);
    return std::nullopt;
  }

  bool SkipMisc() {
    while (true) {
      SkipSpace();
      const std::optional<bool> ignored = Ignored();
      if (!ignored) return true;
      if (!*ignored) return false;
    }
  }

  bool Name(std::string* name) {
    size_t end = 0;
    while (end < rest_.size() && IsNameByte(rest_[end])) ++end;
    if (end == 0 || !IsFirstNameByte(rest_[0])) return Fail("no name");
    *name = std::string(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return true;
  }

  bool Attribute() {
    std::string name;
    absl::string_view value;
    if (!Name(&name)) return false;
    SkipSpace();
    if (!absl::ConsumePrefix(&rest_, "=")) return Fail("an attribute without a value");
    SkipSpace();
    if (rest_.empty() || (rest_[0] != '"' && rest_[0] != '\'')) return Fail("no quotation mark");
    const std::string quote(rest_.substr(0, 1));
    rest_.remove_prefix(1);
    if (!Until(quote, &value)) return false;
    return !absl::StrContains(value, "<") || Fail("< in an attribute");
  }

  bool Element(XmlElement* element, int depth) {
    if (depth > kDepthMax) return Fail("nested too deep");
    if (++elements_ > kElementsMax) return Fail("too many elements");
    if (!absl::ConsumePrefix(&rest_, "<")) return Fail("no element");
    if (!Name(&element->name)) return false;
    while (true) {
      const size_t before = rest_.size();
      SkipSpace();
      if (absl::ConsumePrefix(&rest_, "/>")) return true;
      if (absl::ConsumePrefix(&rest_, ">")) return Content(element, depth);
      if (rest_.size() == before) return Fail("a tag that does not end");
      if (!Attribute()) return false;
    }
  }

  // Consumes an element from after its start tag to the end of its end tag.
  bool Content(XmlElement* element, int depth) {
    while (true) {
      if (rest_.empty()) return Fail(absl::StrCat("no </", Shown(element->name), "> follows"));
      if (rest_[0] != '<') {
        if (!Text(&element->text)) return false;
        continue;
      }
      absl::string_view literal;
      if (absl::ConsumePrefix(&rest_, "</")) return End(element->name);
      if (absl::ConsumePrefix(&rest_, "<![CDATA[")) {
        if (!Until("]]>", &literal)) return false;
        element->text.append(literal.data(), literal.size());
      } else if (const std::optional<bool> ignored = Ignored()) {
        if (!*ignored) return false;
      } else {
        element->children.emplace_back();
        if (!Element(&element->children.back(), depth + 1)) return false;
      }
    }
  }

  bool End(const std::string& expected) {
    std::string name;
    if (!Name(&name)) return false;
    SkipSpace();
    if (!absl::ConsumePrefix(&rest_, ">")) return Fail("a tag that does not end");
    return name == expected ||
           Fail(absl::StrCat("</", Shown(name), "> in place of </", Shown(expected), ">"));
  }

  bool Text(std::string* text) {
    while (!rest_.empty() && rest_[0] != '<') {
      if (rest_[0] != '&') {
        text->push_back(rest_[0]);
        rest_.remove_prefix(1);
        continue;
      }
      const size_t end = rest_.find(';');
      if (end == absl::string_view::npos || !AppendReference(rest_.substr(1, end - 1), text)) {
        return Fail("an unknown reference");
      }
      rest_.remove_prefix(end + 1);
    }
    return true;
  }

  const absl::string_view document_;
  absl::string_view rest_;
  size_t elements_ = 0;
  std::string why_;
};

}  // namespace

const XmlElement* XmlElement::Find(absl::string_view child) const {
  for (const XmlElement& one : children) {
    if (one.name == child) return &one;
  }
  return nullptr;
}

std::string XmlElement::Text(absl::string_view child) const {
  const XmlElement* const found = Find(child);
  return found == nullptr ? "" : found->text;
}

absl::StatusOr<XmlElement> ParseXml(absl::string_view document) {
  return Parser(document).Document();
}

std::string EscapeXml(absl::string_view text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"\r", "&#13;"}});
}

}  // namespace strata::s3
