"""Tests of function_bodies.py: it finds bodies of functions, whole, and nothing else."""

import unittest

from function_bodies import BadSource, function_bodies


def found_in(source):
    """What stands in front of each body on its line."""
    return [
        source[source.rfind("\n", 0, begin) + 1 : begin].strip()
        for begin, _ in function_bodies(source)
    ]


class FunctionBodiesTest(unittest.TestCase):
    def found(self, source, *heads):
        self.assertEqual(found_in(source), list(heads))

    def test_a_body_reaches_from_its_brace_to_the_one_that_closes_it(self):
        source = "int F(int x) {\n  if (x) {\n    return 1;\n  }\n  return 2;\n}\nint y = 3;\n"
        [(begin, end)] = function_bodies(source)
        self.assertEqual(source[:begin], "int F(int x) ")
        self.assertEqual(source[end:], "\nint y = 3;\n")

    def test_braces_in_texts_and_comments_do_not_count(self):
        self.found("void F() {\n  // {\n  /* { \n { */\n}\nvoid G() {}\n", "void F()", "void G()")
        self.found(
            'void F() {\n  Say("{\\"{", \'{\', \'"\', u8"{", L\'{\');\n}\nvoid G() {}\n',
            "void F()",
            "void G()",
        )
        self.found(
            'const char* k = R"x(" { )" void No() {} )x";\nvoid F() {\n  Say(R"({)");\n}\n',
            "void F()",
        )
        self.found("void F() {\n  Wait(1'000, '}');\n}\nvoid G() {}\n", "void F()", "void G()")

    def test_namespaces_and_classes_hold_bodies(self):
        self.found(
            "namespace a::b {\nnamespace {\nvoid F() {}\n}  // namespace\n"
            'inline namespace v1 {\nextern "C" {\nvoid G() {}\n}\n}\n}\nvoid H() {}\n',
            "void F()",
            "void G()",
            "void H()",
        )
        self.found(
            "class A final : public B<C> {\n public:\n  int F() const { return 1; }\n private:\n"
            "  struct alignas(64) D {\n    void G() {}\n    int x = 0;\n  } d_;\n};\nvoid H() {}\n",
            "int F() const",
            "void G()",
            "void H()",
        )
        self.found("struct alignas(64) A {\n  void F() {}\n};\n", "void F()")
        self.found("static const struct {\n  void F() {}\n} kOne;\n", "void F()")

    def test_qualifiers_and_types_may_follow_the_parameters(self):
        for head in (
            "int A::F() const noexcept(true) && override final",
            "auto F() -> std::vector<int>",
            "void F() ABSL_LOCKS_EXCLUDED(mutex_)",
            "void F() ABSL_NO_THREAD_SAFETY_ANALYSIS",
            "void F() noexcept(noexcept(A{}))",
            "ABSL_ATTRIBUTE(x) void F()",
            "[[nodiscard]] decltype(auto) F()",
        ):
            self.found(head + " {}\n", head)

    def test_initialisers_of_a_constructor_are_no_bodies(self):
        for head in (
            "A::A(int x) : a_{x}, b_(x), c_(B{x})",
            "A::A() : B<int>{1}, c_{{1, 2}}",
            "A::A() : go_([] { Go(); })",
            "A::A(T... t) : T(t)...",
        ):
            self.found(head + " {\n  Go();\n}\n", head)
        self.found("struct A {\n public:\n  A() : a_{1} {}\n};\n", "A() : a_{1}")

    def test_operators_are_functions(self):
        for head in (
            "bool A::operator()(int x) const",
            "A& operator=(const A& a)",
            "bool operator==(A a, A b)",
            "A operator+=(A a)",
            "A::operator bool() const",
        ):
            self.found(head + " {\n  Go();\n}\n", head)

    def test_declarations_and_values_are_no_bodies(self):
        self.found("A() = default;\nA(A&&) = delete;\nvoid F(B b = {});\nvirtual int G() = 0;\n")
        self.found("int a{3}, b[] = {1, 2};\nenum class E : int { kA, kB };\nA c(1), d{2};\n")
        self.found("std::function<void()> go{Go};\nconst A kA = {.x = F(), .y = {}};\n")
        self.found("const auto f = [](int x) { return x; };\nvoid F() {}\n", "void F()")
        self.found("void F(B b = {}, C c = C{1}) {}\n", "void F(B b = {}, C c = C{1})")

    def test_templates_are_functions_and_classes_like_others(self):
        self.found(
            "template <class T, class U = std::vector<T>>\nT F(U u) {}\n"
            "template <typename T>\nclass A {\n  void G() {}\n};\n"
            "template <typename T>\n  requires C<T>\nvoid H(T t) {}\ntemplate <>\nvoid I() {}\n",
            "T F(U u)",
            "void G()",
            "void H(T t)",
            "void I()",
        )
        self.found("template <class T>\nvoid F() requires C<T> {}\n", "void F() requires C<T>")

    def test_what_lies_in_a_body_belongs_to_it(self):
        self.found(
            "void F() {\n  struct A {\n    int G() { return 1; }\n  };\n"
            "  auto h = [&](int x) { return x; };\n  Do([] {\n    Go();\n  });\n}\nvoid I() {}\n",
            "void F()",
            "void I()",
        )

    def test_lines_of_the_preprocessor_are_left_out(self):
        self.found(
            "#define OPEN {\n#define TWO \\\n  {\n  #if 1\nvoid F() {\n#ifdef A\n  if (x) {\n  }\n"
            "#else\n  {\n  }\n#endif\n}\n#endif\n",
            "void F()",
        )

    def test_braces_that_do_not_match_are_refused(self):
        for source, why in (
            ("void F() {\n", "at the end"),
            ("void F() {}\n}\n", "at line 2"),
            ("void F() {\n  (}\n", "at line 2"),
            ("#if A\nvoid F() {\n#else\nvoid F(int) {\n#endif\n}\n", "before #else"),
            ("#if A\nnamespace a {\n#endif\n}\n", "before #endif"),
            ("#endif\n", "before #endif"),
        ):
            with self.assertRaisesRegex(BadSource, f"braces do not match {why}"):
                function_bodies(source)


if __name__ == "__main__":
    unittest.main()
