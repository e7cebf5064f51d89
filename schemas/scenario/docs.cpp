#include <schemas/scenario/docs.hpp>

#include <schemas/scenario/grammar.hpp>
#include <schemas/scenario/rules.hpp>
#include <schemas/scenario/spell.hpp>
#include <schemas/scenario/units.hpp>

namespace ftrt::grammar {
namespace {

constexpr std::string_view introduction = R"(# The scenario file

<!-- Generated from schemas/scenario/grammar.cpp by `build/bin/ftrt-scenario-docs docs/scenario.md`. -->

A scenario is a TOML file that says what a run does. Every key has a default or is asked for by a
rule below; `ftrt check FILE` prints all resolved values and where each came from. Unknown keys, wrong
types, values out of range and combinations that make no sense are refused before anything starts, all
of them at once:

```
scenarios/mnist.toml:29: train.lr: expected a number greater than 0, found -0.1
scenarios/mnist.toml:30: train.momentun: expected a key of [train], found "momentun"; did you mean `momentum`?
```

## An example

```toml
[cluster]
ranks = 2

[model]
kind = "mlp"
layers = [784, 128, 10]

[data]
kind = "mnist"
path = "../data/mnist"        # from the folder of this file

[train]
epochs = 5
global_batch = 128
micro_batch = 32
lr = 0.1
momentum = 0.9
amp = "bf16"

[checkpoint]
every_iterations = 100

[supervision]
window = "2min"

[[chaos]]                     # kill rank 1 when iteration 300 is reached
kind = "kill"
rank = 1
at_iteration = 300
```

)";

constexpr std::string_view overriding = R"(## Changing values for one run

`--set TABLE.KEY=VALUE` replaces a value of the file: `--set train.lr=0.05`, `--set run.name=second`,
`--set supervision.window=2min`, `--set model.layers=[784,64,10]`. The value is TOML; what is no TOML
is taken as text, so that it needs no quotes. The last one of several counts. Faults cannot be set from
the command line, but `--set chaos=[]` drops all of them, and what [expect] says: the same
scenario without faults.

## Paths

A relative `data.path` starts at the folder of the scenario file, one given by `--set` at the current
directory. A relative `run.directory` starts at the current directory. The scenario that a run keeps in
its own folder has an absolute data path.

)";

// Empty where there is none: a list to be filled, a key that is absent or asked for.
std::string default_of(const key_spec& key) {
  if (key.table == chaos_table && key.name == "kind") return {};
  scenario defaults;
  defaults.chaos.emplace_back();
  const auto value = spell_value(key, defaults).value_or("[]");
  return value == "[]" ? std::string{} : "`" + value + "`";
}

std::string table_text(const table_spec& table) {
  const std::string name{table.name};
  std::string text = "## " + (table.name == chaos_table ? "[[" + name + "]]" : "[" + name + "]");
  text += "\n\n" + std::string{table.doc} +
          "\n\n| key | value | default | meaning |\n|---|---|---|---|\n";
  for (const auto& key : keys()) {
    if (key.table != table.name) continue;
    text += "| `" + std::string{key.name} + "` | " + expected(key) + " | " + default_of(key) +
            " | " + std::string{key.doc} + " |\n";
  }
  return text + "\n";
}

std::string unit_text() {
  return "## Units\n\nDurations and sizes are text: a decimal number and its unit, without a "
         "space. A "
         "bare number is\nrefused, because nobody can see its unit.\n\n"
         "- Durations: `\"200ms\"`, `\"1.5s\"`, `\"2min\"`, `\"1h\"`; the units are " +
         duration_units() + ".\n- Sizes: `\"4MiB\"`, `\"64KiB\"`, `\"1GB\"`; the units are " +
         size_units() + ".\n  `KiB` is 1024 bytes, `kB` (or `KB`) is 1000.\n\n";
}

std::string rule_text(std::span<const rule> list) {
  std::string text;
  for (const auto& row : list) text += "- " + std::string{row.doc} + "\n";
  return text;
}

}  // namespace

std::string reference() {
  std::string text{introduction};
  text += unit_text();
  text += overriding;
  for (const auto& table : tables()) text += table_text(table);
  text += "## Rules over several keys\n\n" + rule_text(rules());
  text += "\nFor each `[[chaos]]` entry:\n\n" + rule_text(chaos_rules());
  return text;
}

}  // namespace ftrt::grammar
