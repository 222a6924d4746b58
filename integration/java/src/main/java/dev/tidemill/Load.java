package dev.tidemill;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.LongAdder;
import org.apache.beam.sdk.Pipeline;
import org.apache.beam.sdk.PipelineResult;
import org.apache.beam.sdk.options.PipelineOptionsFactory;

/**
 * Runs one benchmark pipeline with a harness in this process (LOOPBACK) and prints what it cost as one
 * JSON line: {@code Load --row=group_by_key_1m --runner=PortableRunner --jobEndpoint=…}.
 */
public final class Load {
  private static final String ROW = "--row=";

  private Load() {}

  public static void main(String[] arguments) {
    String name = "job_overhead";
    List<String> options = new ArrayList<>();
    for (String argument : arguments) {
      if (argument.startsWith(ROW)) {
        name = argument.substring(ROW.length());
      } else {
        options.add(argument);
      }
    }
    Rows.Row row = Rows.named(name);
    // Loading the SDK's classes is no part of what a job costs.
    run(Rows.named("job_overhead"), options);
    long cpuBefore = cpuNanos();
    long start = System.nanoTime();
    run(row, options);
    double wallSeconds = (System.nanoTime() - start) / 1e9;
    double cpuSeconds = (cpuNanos() - cpuBefore) / 1e9;
    System.out.printf(
        "{\"row\": \"%s\", \"wall_seconds\": %f, \"client_cpu_seconds\": %f, \"payload_bytes\": %d}%n",
        name, wallSeconds, cpuSeconds, row.payloadBytes());
    // The harness keeps threads.
    System.exit(0);
  }

  private static void run(Rows.Row row, List<String> options) {
    Pipeline pipeline =
        Pipeline.create(PipelineOptionsFactory.fromArgs(options.toArray(new String[0])).create());
    row.build().accept(pipeline);
    PipelineResult.State state = pipeline.run().waitUntilFinish();
    if (state != PipelineResult.State.DONE) {
      throw new IllegalStateException("the job ended as " + state);
    }
    check("elements", Rows.ELEMENTS, row.elements());
    check("groups", Rows.GROUPS, row.groups());
  }

  private static void check(String what, LongAdder counter, long wanted) {
    long counted = counter.sumThenReset();
    if (counted != wanted) {
      throw new IllegalStateException(what + " counted: " + counted + ", want " + wanted);
    }
  }

  /** User and system time of this process so far. */
  private static long cpuNanos() {
    return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
        .getProcessCpuTime();
  }
}
