package dev.tidemill;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.beam.sdk.coders.Coder;
import org.apache.beam.sdk.coders.IterableCoder;
import org.apache.beam.sdk.coders.KvCoder;
import org.apache.beam.sdk.coders.StringUtf8Coder;
import org.apache.beam.sdk.expansion.ExternalTransformRegistrar;
import org.apache.beam.sdk.transforms.DoFn;
import org.apache.beam.sdk.transforms.ExternalTransformBuilder;
import org.apache.beam.sdk.transforms.Flatten;
import org.apache.beam.sdk.transforms.GroupByKey;
import org.apache.beam.sdk.transforms.MapElements;
import org.apache.beam.sdk.transforms.PTransform;
import org.apache.beam.sdk.transforms.ParDo;
import org.apache.beam.sdk.transforms.Partition;
import org.apache.beam.sdk.transforms.Sum;
import org.apache.beam.sdk.transforms.View;
import org.apache.beam.sdk.transforms.join.CoGbkResult;
import org.apache.beam.sdk.transforms.join.CoGroupByKey;
import org.apache.beam.sdk.transforms.join.KeyedPCollectionTuple;
import org.apache.beam.sdk.values.KV;
import org.apache.beam.sdk.values.PCollection;
import org.apache.beam.sdk.values.PCollectionList;
import org.apache.beam.sdk.values.PCollectionTuple;
import org.apache.beam.sdk.values.PCollectionView;
import org.apache.beam.sdk.values.PInput;
import org.apache.beam.sdk.values.POutput;
import org.apache.beam.sdk.values.TupleTag;
import org.apache.beam.sdk.values.TypeDescriptors;

/** The transforms that Beam's cross-language tests ask an expansion service for. */
public final class TestTransforms implements ExternalTransformRegistrar {
  private static final String URN = "beam:transforms:xlang:test:";

  @Override
  public Map<String, ExternalTransformBuilder<?, ?, ?>> knownBuilderInstances() {
    return Map.of(
        URN + "prefix", new PrefixBuilder(),
        URN + "multi", new MultiBuilder(),
        URN + "gbk", new GroupBuilder(),
        URN + "cgbk", new CoGroupBuilder(),
        URN + "comgl", new CombineGloballyBuilder(),
        URN + "compk", new CombinePerKeyBuilder(),
        URN + "flatten", new FlattenBuilder(),
        URN + "partition", new PartitionBuilder());
  }

  /** A transform without settings takes this. */
  public static final class Nothing {}

  /** A builder of a transform without settings. */
  private interface Plain<InputT extends PInput, OutputT extends POutput>
      extends ExternalTransformBuilder<Nothing, InputT, OutputT> {
    OutputT apply(InputT input);

    @Override
    default PTransform<InputT, OutputT> buildExternal(Nothing nothing) {
      return new PTransform<InputT, OutputT>() {
        @Override
        public OutputT expand(InputT input) {
          return Plain.this.apply(input);
        }
      };
    }
  }

  /** Puts a text before each element. */
  private static final class PrefixBuilder
      implements ExternalTransformBuilder<
          PrefixBuilder.Config, PCollection<? extends String>, PCollection<String>> {
    public static final class Config {
      private String data = "";

      public void setData(String data) {
        this.data = data;
      }
    }

    @Override
    public PTransform<PCollection<? extends String>, PCollection<String>> buildExternal(
        Config config) {
      String prefix = config.data;
      return MapElements.into(TypeDescriptors.strings()).via((String element) -> prefix + element);
    }
  }

  /** Appends a side input to two inputs; doubles the side input. */
  private static final class MultiBuilder implements Plain<PCollectionTuple, PCollectionTuple> {
    @Override
    public PCollectionTuple apply(PCollectionTuple input) {
      PCollection<String> side = input.get("side");
      PCollectionView<String> view = side.apply(View.asSingleton());
      PCollection<String> first = input.get("main1");
      PCollection<String> second = input.get("main2");
      PCollection<String> main =
          PCollectionList.of(first)
              .and(second)
              .apply(Flatten.pCollections())
              .apply(ParDo.of(new Append(view)).withSideInputs(view));
      PCollection<String> doubled =
          side.apply(MapElements.into(TypeDescriptors.strings()).via(text -> text + text));
      return PCollectionTuple.of("main", main).and("side", doubled);
    }

    private static final class Append extends DoFn<String, String> {
      private final PCollectionView<String> view;

      Append(PCollectionView<String> view) {
        this.view = view;
      }

      @ProcessElement
      public void process(ProcessContext context) {
        context.output(context.element() + context.sideInput(view));
      }
    }
  }

  /** Groups. */
  private static final class GroupBuilder
      implements Plain<PCollection<KV<Object, Object>>, PCollection<KV<Object, Iterable<Object>>>> {
    @Override
    public PCollection<KV<Object, Iterable<Object>>> apply(PCollection<KV<Object, Object>> input) {
      return input.apply(GroupByKey.create());
    }
  }

  /** Joins two inputs: their values, one after the other. */
  private static final class CoGroupBuilder
      implements Plain<PCollectionTuple, PCollection<KV<Long, Iterable<String>>>> {
    private static final TupleTag<String> FIRST = new TupleTag<>("col1");
    private static final TupleTag<String> SECOND = new TupleTag<>("col2");

    @Override
    public PCollection<KV<Long, Iterable<String>>> apply(PCollectionTuple input) {
      PCollection<KV<Long, String>> first = input.get("col1");
      PCollection<KV<Long, String>> second = input.get("col2");
      Coder<Long> key = ((KvCoder<Long, String>) first.getCoder()).getKeyCoder();
      return KeyedPCollectionTuple.of(FIRST, first)
          .and(SECOND, second)
          .apply(CoGroupByKey.create())
          .apply(ParDo.of(new Concatenate()))
          .setCoder(KvCoder.of(key, IterableCoder.of(StringUtf8Coder.of())));
    }

    private static final class Concatenate extends DoFn<KV<Long, CoGbkResult>, KV<Long, Iterable<String>>> {
      @ProcessElement
      public void process(
          @Element KV<Long, CoGbkResult> joined, OutputReceiver<KV<Long, Iterable<String>>> out) {
        List<String> values = new ArrayList<>();
        joined.getValue().getAll(FIRST).forEach(values::add);
        joined.getValue().getAll(SECOND).forEach(values::add);
        out.output(KV.of(joined.getKey(), values));
      }
    }
  }

  /** The sum of all. */
  private static final class CombineGloballyBuilder
      implements Plain<PCollection<Long>, PCollection<Long>> {
    @Override
    public PCollection<Long> apply(PCollection<Long> input) {
      return input.apply(Sum.longsGlobally());
    }
  }

  /** The sum of each key. */
  private static final class CombinePerKeyBuilder
      implements Plain<PCollection<KV<String, Long>>, PCollection<KV<String, Long>>> {
    @Override
    public PCollection<KV<String, Long>> apply(PCollection<KV<String, Long>> input) {
      return input.apply(Sum.longsPerKey());
    }
  }

  /** All inputs as one. */
  private static final class FlattenBuilder implements Plain<PCollectionTuple, PCollection<Long>> {
    @Override
    public PCollection<Long> apply(PCollectionTuple input) {
      PCollectionList<Long> list = PCollectionList.empty(input.getPipeline());
      for (TupleTag<?> tag : input.getAll().keySet()) {
        list = list.and(input.<Long>get(tag.getId()));
      }
      return list.apply(Flatten.pCollections());
    }
  }

  /** Even numbers, and odd ones. */
  private static final class PartitionBuilder
      implements Plain<PCollection<Long>, PCollectionList<Long>> {
    @Override
    public PCollectionList<Long> apply(PCollection<Long> input) {
      return input.apply(Partition.of(2, (number, parts) -> (int) (number % parts)));
    }
  }
}
