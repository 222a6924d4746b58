package dev.tidemill;

import java.util.Map;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Consumer;
import org.apache.beam.sdk.Pipeline;
import org.apache.beam.sdk.transforms.DoFn;
import org.apache.beam.sdk.transforms.GroupByKey;
import org.apache.beam.sdk.transforms.Impulse;
import org.apache.beam.sdk.transforms.ParDo;
import org.apache.beam.sdk.values.KV;

/** The benchmarks by name. */
final class Rows {
  /** How to build a benchmark's pipeline, and what it must have counted afterwards. */
  record Row(Consumer<Pipeline> build, long elements, long groups, long payloadBytes) {}

  /** Not metrics: what those are after an attempt differs from runner to runner. */
  static final LongAdder ELEMENTS = new LongAdder();

  static final LongAdder GROUPS = new LongAdder();

  private static final Map<String, Row> ALL =
      Map.of(
          "job_overhead", groupByKey(10, 10, 8),
          "group_by_key_1m", groupByKey(1_000_000, 1_000, 8),
          "group_by_key_10m", groupByKey(10_000_000, 10_000, 8));

  private Rows() {}

  static Row named(String name) {
    Row row = ALL.get(name);
    if (row == null) {
      throw new IllegalArgumentException("unknown row " + name);
    }
    return row;
  }

  private static Row groupByKey(long elements, long keys, int valueBytes) {
    return new Row(
        pipeline ->
            pipeline
                .apply(Impulse.create())
                .apply(ParDo.of(new GeneratePairs(elements, keys, valueBytes)))
                .apply(GroupByKey.create())
                .apply(ParDo.of(new CountGroups())),
        elements,
        keys,
        elements * (8 + valueBytes));
  }

  /** Emits values of a fixed size, spread evenly over the keys. */
  private static final class GeneratePairs extends DoFn<byte[], KV<Long, byte[]>> {
    private final long elements;
    private final long keys;
    private final int valueBytes;

    GeneratePairs(long elements, long keys, int valueBytes) {
      this.elements = elements;
      this.keys = keys;
      this.valueBytes = valueBytes;
    }

    @ProcessElement
    public void process(OutputReceiver<KV<Long, byte[]>> out) {
      byte[] value = new byte[valueBytes];
      for (long i = 0; i < elements; i++) {
        out.output(KV.of(i % keys, value));
      }
    }
  }

  /** Counts in this process, where the harness runs too. */
  private static final class CountGroups extends DoFn<KV<Long, Iterable<byte[]>>, Void> {
    @ProcessElement
    public void process(@Element KV<Long, Iterable<byte[]>> group) {
      long elements = 0;
      for (byte[] value : group.getValue()) {
        elements += value.length > 0 ? 1 : 0;
      }
      ELEMENTS.add(elements);
      GROUPS.increment();
    }
  }
}
