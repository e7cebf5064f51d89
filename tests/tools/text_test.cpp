#include "tools/ftrt/text.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <random>

#include "tools/ftrt/table.hpp"

namespace ftrt::cli {
namespace {

TEST(text, control_characters_of_a_worker_reach_no_terminal) {
  EXPECT_EQ(printable("a\033[2Jb"), "a\\x1b[2Jb");
  EXPECT_EQ(printable("line\r\nforged\t\x7f"), "line\\x0d\\x0aforged\\x09\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m");                                    // CSI as one C1 character
  EXPECT_EQ(printable("\xe2\x80\xae"), "\\xe2\\x80\\xae");       // right-to-left override
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");  // an end that is none
}

TEST(text, letters_of_any_language_stay_and_broken_utf8_does_not) {
  EXPECT_EQ(printable("Größe 学習 🙂"), "Größe 学習 🙂");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");           // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // surrogate
}

TEST(text, whatever_bytes_come_what_is_shown_has_no_control_character) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 24, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    const std::string shown = printable(bytes);
    for (const char c : shown) {
      ASSERT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) << shown;
    }
    ASSERT_EQ(printable(shown), shown) << "what was shown once must be well-formed";
  }
}

TEST(text, clipping_never_cuts_a_character_in_two) {
  EXPECT_EQ(clipped("größe", 3), "grö");
  EXPECT_EQ(clipped("größe", 5), "größe");
  EXPECT_EQ(clipped("größe", 0), "");
  EXPECT_EQ(display_width("größe"), 5u);
}

TEST(text, sizes_and_times_are_short_and_carry_units) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(1024 * 1024 - 1), "1.0 MiB");
  EXPECT_EQ(format_bytes(std::numeric_limits<std::uint64_t>::max()), "16777216.0 TiB");
  EXPECT_EQ(format_seconds(4.21), "4.2 s");
  EXPECT_EQ(format_seconds(59.97), "1:00");
  EXPECT_EQ(format_seconds(3723), "1:02:03");
  EXPECT_EQ(format_seconds(std::numeric_limits<double>::infinity()), "-");
  EXPECT_EQ(format_milliseconds(0.412), "0.41 ms");
  EXPECT_EQ(format_milliseconds(1300), "1.3 s");
  EXPECT_EQ(format_rate(31'234), "31.2k samples/s");
  EXPECT_EQ(format_date(0), "-");
}

TEST(text, a_figure_that_was_never_measured_is_a_dash) {
  EXPECT_EQ(format_percent(std::nan("")), "-");
  EXPECT_EQ(format_number(std::nan(""), 4), "-");
  EXPECT_EQ(format_percent(0.9783), "97.83 %");
}

TEST(table, columns_are_as_wide_as_their_widest_cell_and_rows_stay_one_line) {
  table shown({{"n", align::right}, {"name"}, {"what"}});
  shown.add_row({"7", "größe", "first\nsecond"});
  shown.add_row({"1234", "x", ""});
  EXPECT_EQ(shown.render(),
            "   n  name   what\n"
            "   7  größe  first\\x0asecond\n"
            "1234  x\n");
}

}  // namespace
}  // namespace ftrt::cli
