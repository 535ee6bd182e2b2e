//! The page's TypeScript types, generated from the answers.
//!
//! `HIGHWATER_TYPES=write cargo test -p highwater-query types` writes `web/src/query.ts`; without the variable, the test compares it.

use crate::*;
use std::path::Path;
use ts_rs::TS;

const HEAD: &str = "\
// What the server answers to questions: generated from the structs of crates/query. Do not edit; see crates/query/src/types.rs.
// Nothing here is checked at run time; views take missing members as absent.

/** Nanoseconds; of a log without times, line numbers. */
export type Nanos = number;
export type Measure = \"bytes\" | \"blocks\";

/** Figures by name, as `highwater report --json` has them. */
export type Figures = { [name: string]: number | undefined };

/** What estimates have besides their value. */
export interface Interval {
  interval_95?: { [name: string]: [number, number] } | [number, number];
  samples?: number;
}
";

/// A declaration as the page writes it: one member a line, numbers for all sizes of integers. JSON numbers are limited to what a browser holds exactly.
fn declaration<T: TS>() -> String {
    let text = T::decl()
        .replace("bigint", "number")
        .replace("{ \n/**", "{\n/**")
        .replace("\n/**\n * ", "\n  /** ")
        .replace("\n */\n", " */\n  ")
        .replace(", \n", ";\n")
        .replace(", };", ";\n};");
    format!("\n/** {} */\nexport {text}\n", T::docs().map_or_else(String::new, |docs| summary(&docs)))
}

/// The first line of a doc comment.
fn summary(docs: &str) -> String {
    let line = docs.lines().map(|line| line.trim_start_matches(['/', '*', ' '])).find(|line| !line.is_empty());
    line.unwrap_or_default().to_owned()
}

fn generated() -> String {
    let keys = |keys: Vec<&str>| keys.iter().map(|key| format!("\"{key}\"")).collect::<Vec<_>>().join(" | ");
    let mut text = HEAD.to_owned();
    text.push_str(&format!("\nexport type Metric = {};\n", keys(Metric::ALL.map(Metric::key).to_vec())));
    text.push_str(&format!("\nexport type Grouping = {};\n", keys(GroupBy::ALL.map(GroupBy::key).to_vec())));
    let declarations = [
        declaration::<FrameAnswer>(),
        declaration::<WindowAnswer>(),
        declaration::<BytesAndBlocks>(),
        // All figures of a row stand beside its own members.
        declaration::<RowAnswer>().replace("};\n", "} & Interval;\n"),
        declaration::<FoundAnswer>(),
        declaration::<RowsAnswer>().replace("total: Figures", "total: Figures & Interval"),
        declaration::<TopRows>(),
        declaration::<OverviewAnswer>().replace("figures: Figures", "figures: Figures & Interval"),
        declaration::<HeadlineFunction>(),
        declaration::<HeadlineSite>(),
        declaration::<SteadyGrowth>(),
        declaration::<HeadlineAnswer>(),
        declaration::<PeakInstant>(),
        declaration::<PeakAnswer>(),
        declaration::<LiveSpans>(),
        declaration::<GaugeAnswer>(),
        declaration::<MarkAnswer>(),
        declaration::<TimelineAnswer>(),
        declaration::<BandCurve>(),
        declaration::<BandAnswer>(),
        declaration::<RestBand>(),
        declaration::<BandsAnswer>(),
        declaration::<LeftOutNodes>(),
        declaration::<TreeAnswer>(),
        declaration::<FocusAnswer>(),
        declaration::<NeighbourAnswer>(),
        declaration::<CallersAnswer>(),
        declaration::<BlockAnswer>(),
        declaration::<BlocksAnswer>(),
        declaration::<LifeEventAnswer>(),
        declaration::<OccupantAnswer>(),
        declaration::<BiographyAnswer>(),
        declaration::<BarAnswer>(),
        declaration::<TimeBarAnswer>(),
        declaration::<HistogramsAnswer>(),
        declaration::<CompareSide>(),
        declaration::<WholeChange>(),
        declaration::<ChangeAnswer>(),
        declaration::<CompareAnswer>(),
        declaration::<GrowingRowAnswer>(),
        declaration::<SiteGrowthAnswer>(),
        declaration::<LineFigures>(),
        declaration::<LineChange>(),
        declaration::<SourceLineAnswer>(),
        declaration::<SourceLinesAnswer>(),
        declaration::<GrowthSite>(),
        declaration::<GrowthAnswer>(),
        declaration::<LeakSite>(),
        declaration::<LeaksAnswer>(),
        declaration::<Relation>(),
        declaration::<ProcessAnswer>(),
        declaration::<StackedProcess>(),
        declaration::<HighestTotal>(),
        declaration::<ProcessProblem>(),
        declaration::<ProcessesAnswer>(),
        declaration::<ProcessHeld>(),
        declaration::<ProcessesHeld>(),
        declaration::<RssRowAnswer>(),
        declaration::<RssLimit>(),
        declaration::<RssBeside>(),
        declaration::<RssAllocator>(),
        declaration::<RssFigures>(),
        declaration::<RssSite>(),
        declaration::<RssGroup>(),
        declaration::<RssFile>(),
        declaration::<RssFinding>(),
        declaration::<RssInstant>(),
        declaration::<RssAnswer>(),
        declaration::<RssCell>(),
        declaration::<RssArea>(),
        declaration::<RssMapSite>(),
        declaration::<RssMapAnswer>(),
    ];
    declarations.iter().for_each(|declaration| text.push_str(declaration));
    text
}

#[test]
fn the_page_has_the_types_of_the_answers() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/src/query.ts");
    let text = generated();
    if std::env::var_os("HIGHWATER_TYPES").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(known == text, "web/src/query.ts is not what the answers are: HIGHWATER_TYPES=write writes it anew");
}
