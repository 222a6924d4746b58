package dev.tidemill;

import java.util.Arrays;
import org.apache.beam.sdk.Pipeline;
import org.apache.beam.sdk.io.TextIO;
import org.apache.beam.sdk.options.PipelineOptions;
import org.apache.beam.sdk.options.PipelineOptionsFactory;
import org.apache.beam.sdk.options.Validation;
import org.apache.beam.sdk.transforms.Count;
import org.apache.beam.sdk.transforms.FlatMapElements;
import org.apache.beam.sdk.transforms.MapElements;
import org.apache.beam.sdk.values.KV;
import org.apache.beam.sdk.values.TypeDescriptors;

/** Counts the words of a text. */
public final class WordCount {
  /** What to read and write. */
  public interface Options extends PipelineOptions {
    @Validation.Required
    String getInput();

    void setInput(String input);

    @Validation.Required
    String getOutput();

    void setOutput(String output);
  }

  public static void main(String[] arguments) {
    Options options =
        PipelineOptionsFactory.fromArgs(arguments).withValidation().as(Options.class);
    Pipeline pipeline = Pipeline.create(options);
    pipeline
        .apply(TextIO.read().from(options.getInput()))
        .apply(
            FlatMapElements.into(TypeDescriptors.strings())
                .via((String line) -> Arrays.asList(line.split(" "))))
        .apply(Count.perElement())
        .apply(
            MapElements.into(TypeDescriptors.strings())
                .via((KV<String, Long> counted) -> counted.getKey() + ": " + counted.getValue()))
        .apply(TextIO.write().to(options.getOutput()));
    pipeline.run().waitUntilFinish();
  }

  private WordCount() {}
}
