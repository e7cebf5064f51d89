#include <map>
#include <runtime/models/models.hpp>
#include <stdexcept>
#include <utility>

namespace ftrt {
namespace {

// Built-in models are here from the start: a static library would drop a self-registering source.
std::map<std::string, model_factory>& registry() {
  static std::map<std::string, model_factory> models{{"mlp", models::make_mlp},
                                                     {"cnn", models::make_cnn}};
  return models;
}

}  // namespace

void register_model(std::string name, model_factory factory) {
  registry().insert_or_assign(std::move(name), std::move(factory));
}

namespace models {

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& [name, factory] : registry()) names.push_back(name);
  return names;
}

std::unique_ptr<model> make_model(const scenario& values) {
  const auto found = registry().find(values.model.kind);
  if (found == registry().end()) {
    std::string known;
    for (const auto& name : model_names()) known += (known.empty() ? "" : ", ") + name;
    throw std::invalid_argument("no model is called '" + values.model.kind + "'; known: " + known);
  }
  auto built = found->second(values);
  if (!built) throw std::invalid_argument("the factory of '" + values.model.kind + "' built none");
  return built;
}

}  // namespace models
}  // namespace ftrt
