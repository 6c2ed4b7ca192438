use super::*;
use crate::depth::levels;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

#[test]
fn long_chains_have_the_same_terms_in_the_same_order_on_few_levels() {
    let terms: Vec<String> = (0..1_000).map(|term| format!("a = {term} AND b = 1")).collect();
    let arms: Vec<String> = (0..1_000).map(|arm| format!("SELECT {arm}")).collect();
    let texts =
        [format!("SELECT {}", terms.join(" OR ")), format!("SELECT {}", terms.join(" AND ")), arms.join(" UNION ALL ")];
    for text in texts {
        let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, &text).unwrap().remove(0);
        assert!(levels(&statement).is_err());
        balance(&mut statement);
        assert!(levels(&statement).unwrap() < 60);
        assert_eq!(statement.to_string(), text);
    }
}

#[test]
fn what_does_not_mean_the_same_in_another_order_stays() {
    for text in ["SELECT 1 EXCEPT SELECT 2", "SELECT 1 INTERSECT SELECT 2"] {
        let text = text.to_owned() + &text["SELECT 1".len()..].repeat(100);
        let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, &text).unwrap().remove(0);
        balance(&mut statement);
        assert!(levels(&statement).unwrap_err().to_string().starts_with("the statement is nested too deeply"));
    }
}
