"""Reads a file of OpenMetrics with the strict parser of PyPI's prometheus_client, and checks the exemplars."""

import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families

text = open(sys.argv[1], encoding="utf-8").read()
families = list(text_string_to_metric_families(text))
samples = [sample for family in families for sample in family.samples]
exemplars = [sample for sample in samples if sample.exemplar]
assert len(families) > 25, len(families)
assert exemplars, "no exemplars"
for sample in exemplars:
    bound = float(sample.labels.get("le", "inf"))
    assert sample.exemplar.value <= bound, sample
    assert sample.name.endswith(("_bucket", "_total")), sample
lower_bounds = {}
for sample in samples:
    if "le" not in sample.labels:
        continue
    key = (sample.name, tuple(item for item in sorted(sample.labels.items()) if item[0] != "le"))
    if sample.exemplar:
        assert sample.exemplar.value > lower_bounds.get(key, 0.0), (sample, lower_bounds[key])
    lower_bounds[key] = float(sample.labels["le"])
print(f"{len(families)} metrics, {len(samples)} samples, {len(exemplars)} exemplars", end="")
