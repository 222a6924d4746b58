package dev.tidemill;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.beam.sdk.Pipeline;
import org.apache.beam.sdk.PipelineResult;
import org.apache.beam.sdk.options.PipelineOptionsFactory;
import org.apache.beam.sdk.transforms.Create;
import org.apache.beam.sdk.transforms.DoFn;
import org.apache.beam.sdk.transforms.GroupByKey;
import org.apache.beam.sdk.transforms.ParDo;
import org.apache.beam.sdk.values.KV;

/**
 * Groups values of one key that are more than this process may hold, reads them twice with a harness in
 * this process (LOOPBACK), and prints how many each reading found as one JSON line: {@code LargeGroup
 * --megabytes=256 --runner=PortableRunner --jobEndpoint=…}, under a small {@code -Xmx}.
 */
public final class LargeGroup {
  private static final String MEGABYTES = "--megabytes=";
  private static final int VALUE_BYTES = 64 << 10;
  private static final int VALUES_PER_MEBIBYTE = (1 << 20) / VALUE_BYTES;
  private static final AtomicLong FIRST = new AtomicLong();
  private static final AtomicLong SECOND = new AtomicLong();

  private LargeGroup() {}

  public static void main(String[] arguments) {
    int megabytes = 256;
    List<String> options = new ArrayList<>();
    for (String argument : arguments) {
      if (argument.startsWith(MEGABYTES)) {
        megabytes = Integer.parseInt(argument.substring(MEGABYTES.length()));
      } else {
        options.add(argument);
      }
    }
    Pipeline pipeline =
        Pipeline.create(PipelineOptionsFactory.fromArgs(options.toArray(new String[0])).create());
    pipeline
        .apply(Create.of(megabytes * VALUES_PER_MEBIBYTE))
        .apply(ParDo.of(new Values()))
        .apply(GroupByKey.create())
        .apply(ParDo.of(new ReadTwice()));
    PipelineResult.State state = pipeline.run().waitUntilFinish();
    if (state != PipelineResult.State.DONE) {
      throw new IllegalStateException("the job ended as " + state);
    }
    System.out.printf("{\"counts\": [%d, %d]}%n", FIRST.get(), SECOND.get());
    // The harness keeps threads.
    System.exit(0);
  }

  private static byte[] value(int number) {
    byte[] value = new byte[VALUE_BYTES];
    ByteBuffer.wrap(value).putInt(number);
    return value;
  }

  /** Makes as many values, which tell their numbers, as it is asked for. */
  private static final class Values extends DoFn<Integer, KV<String, byte[]>> {
    @ProcessElement
    public void process(@Element Integer count, OutputReceiver<KV<String, byte[]>> output) {
      for (int number = 0; number < count; number++) {
        output.output(KV.of("key", value(number)));
      }
    }
  }

  /** Expects the values in the order in which one bundle put them out. */
  private static final class ReadTwice extends DoFn<KV<String, Iterable<byte[]>>, Void> {
    @ProcessElement
    public void process(@Element KV<String, Iterable<byte[]>> group) {
      FIRST.addAndGet(read(group));
      SECOND.addAndGet(read(group));
    }

    private static int read(KV<String, Iterable<byte[]>> group) {
      int count = 0;
      for (byte[] value : group.getValue()) {
        if (!Arrays.equals(value, value(count))) {
          throw new IllegalStateException("value " + count + " of " + group.getKey() + " is another");
        }
        count++;
      }
      return count;
    }
  }
}
