#ifndef STRATA_COMMON_S3_XML_H_
#define STRATA_COMMON_S3_XML_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace strata::s3 {

// An XML element: its children, and its own text with all references resolved. Attributes are
// skipped; servers put nothing in them.
struct XmlElement {
  std::string name;  // with its prefix, if it has one
  std::string text;
  std::vector<XmlElement> children;

  // Returns the first child of a name; null: there is none.
  const XmlElement* Find(absl::string_view child) const;
  // Returns its text; empty: there is none.
  std::string Text(absl::string_view child) const;
};

// Parses a whole document in UTF-8: elements, text, the five entities, numeric references, CDATA,
// comments, instructions. Errors: InvalidArgument with the position and what is wrong, also for
// what no S3 server sends: a document type, elements nested deeper than 32, more than 200,000
// elements. They are one short line, whatever names the document has.
absl::StatusOr<XmlElement> ParseXml(absl::string_view document);

// Escapes text for use between tags.
std::string EscapeXml(absl::string_view text);

}  // namespace strata::s3

#endif  // STRATA_COMMON_S3_XML_H_
